// bundle_salvage.cc -- opens what is left of a TensorFlow checkpoint with a damaged index.
#include <cairn/base/errors.h>
#include <cairn/base/text.h>
#include <cairn/formats/files/bundle_files.h>
#include <cairn/formats/files/open_in_tree.h>
#include <cairn/formats/tensorflow/index/bundle_remains.h>
#include <cairn/formats/tensorflow/index/object_graph.h>
#include <cairn/formats/tensorflow/read/bundle_assemble.h>
#include <cairn/formats/tensorflow/read/bundle_locate.h>
#include <cairn/io/tree/read_ahead.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <utility>

namespace cairn::inline v0 {
namespace {

// Tensors of strings that are read to learn the byte order.
constexpr std::size_t kMostStrings = 16;

class BundleSalvage {
 public:
  BundleSalvage(const FileTree& tree, BundlePlace place, const OpenOptions& options)
      : tree_(tree), place_(std::move(place)), options_(options) {}

  TensorflowRemains run() {
    File file = with_read_ahead(tree_.open(index_path_));
    BundleRemains remains = read_bundle_remains(
        file.size(),
        [&](std::uint64_t offset, MutableByteView out) { file.read_into(offset, out); });
    note_damage(remains.table);
    if (remains.entries.empty()) data_loss(index_path_ + ": no block with entries is whole");
    const bool has_header = remains.header.has_value();
    const BundleHeader header = has_header ? *remains.header : assumed_header();
    index_ = check_bundle_remains(header, std::move(remains));
    assemble();
    if (!has_header) find_byte_order();
    if (out_.lacks_names) add_names_of_objects();
    return std::move(out_);
  }

 private:
  void note(const std::string& text) { out_.notes.push_back(index_path_ + ": " + text); }

  void note_damage(const SstableRemains& table) {
    if (!table.why_no_index.empty()) note("its blocks were found by their checksums");
    for (const LostSstableBytes& lost : table.lost)
      note(fmt::format("bytes {} to {}: {}; the names of their tensors are not known", lost.begin,
                       lost.end, lost.why));
    out_.lacks_names = !table.lost.empty();
  }

  // The header says how many data files there are. Without it, their names do.
  BundleHeader assumed_header() {
    const std::string folder = parent_of(place_.prefix);
    const std::string start = std::string(name_of(place_.prefix)) + ".data-";
    std::set<std::string, std::less<>> counts;
    for (const std::string& name : tree_.names_in(folder))
      if (name.starts_with(start) && prefix_of_data(name)) {
        const std::string_view numbers = std::string_view(name).substr(start.size());
        counts.emplace(numbers.substr(numbers.find("-of-") + 4));
      }
    if (counts.empty())
      data_loss(index_path_ + ": its header is lost, and no data files are beside it");
    if (counts.size() > 1)
      data_loss(
          fmt::format("{}: its header is lost, and the data files beside it are of several "
                      "checkpoints, of {} files; keep those of one",
                      index_path_, fmt::join(counts, " and of ")));
    constexpr std::size_t kDigits = 9;
    const std::string& count = *counts.begin();
    if (count.size() > kDigits) data_loss(index_path_ + ": its header is lost");
    BundleHeader header{.shards = std::stoi(count)};
    note(fmt::format("its header is lost; the names of the data files say that there are {}",
                     header.shards));
    return header;
  }

  void assemble() {
    out_.checkpoint =
        assemble_bundle(tree_, place_, with_read_ahead(tree_.open(index_path_)), index_, options_);
  }

  // The checksums of strings depend on the byte order.
  [[nodiscard]] bool has_readable_string() const {
    const TensorList tensors = out_.checkpoint->tensors();
    std::size_t tries = 0;
    for (std::size_t i = 0; i < tensors.size() && tries < kMostStrings; ++i) {
      if (!tensors[i].is_string() || !tensors[i].error.empty()) continue;
      ++tries;
      if (try_call([&] { return out_.checkpoint->read_strings(i); }).ok()) return true;
    }
    return false;
  }

  void find_byte_order() {
    if (has_readable_string()) return note("its strings show that the byte order is little-endian");
    index_.header.big_endian = true;
    assemble();
    if (has_readable_string()) return note("its strings show that the byte order is big-endian");
    index_.header.big_endian = false;
    assemble();
    out_.assumes_order = true;
    note("no string shows the byte order; it is taken to be little-endian");
  }

  // The program's objects name the tensors of variables, also those whose entries are lost.
  void add_names_of_objects() {
    const TensorList tensors = out_.checkpoint->tensors();
    const auto graph = std::ranges::find(tensors, kObjectGraphKey, &TensorInfo::name);
    if (graph == tensors.end()) return;
    const auto objects = try_call([&] {
      const std::string text =
          out_.checkpoint->read_string(static_cast<std::size_t>(graph - tensors.begin()));
      return parse_object_graph(as_bytes(text));
    });
    if (!objects) return;
    std::set<std::string> lost;
    for (const TrackableNode& node : objects.value())
      for (const TrackableNode::Attribute& attribute : node.attributes)
        if (!attribute.checkpoint_key.empty() && !is_known(attribute.checkpoint_key))
          lost.insert(attribute.checkpoint_key);
    if (lost.empty()) return;
    for (const std::string& name : lost) {
      BundleTensor& tensor = index_.tensors.emplace_back();
      tensor.name = name;
      tensor.why_lost = "its entry in the index is lost; the program's objects name it";
    }
    std::ranges::sort(index_.tensors, {}, &BundleTensor::name);
    assemble();
  }

  // For some objects the graph has only the start of their tensors' keys.
  [[nodiscard]] bool is_known(const std::string& key) const {
    const auto at = std::ranges::lower_bound(index_.tensors, key, {}, &BundleTensor::name);
    return at != index_.tensors.end() && at->name.starts_with(key);
  }

  FileTree tree_;
  BundlePlace place_;
  OpenOptions options_;
  std::string index_path_ = bundle_index_path(place_.prefix);
  BundleIndex index_;
  TensorflowRemains out_;
};

}  // namespace

TensorflowRemains salvage_tensorflow(const FileTree& tree, const std::string& path,
                                     const OpenOptions& options) {
  auto place = locate_bundle(tree, path, options.step);
  if (!place) throw Error(Code::kNotFound, path + ": not a TensorFlow checkpoint");
  return BundleSalvage(tree, *std::move(place), options).run();
}

}  // namespace cairn::inline v0
