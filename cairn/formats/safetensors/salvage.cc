#include <cairn/formats/safetensors/salvage.h>

#include <cairn/base/errors.h>
#include <cairn/base/text.h>
#include <cairn/formats/files/weight_map.h>
#include <cairn/formats/safetensors/header.h>
#include <cairn/formats/safetensors/shard.h>
#include <cairn/io/tree/read_ahead.h>

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

namespace cairn::inline v0 {
namespace {

// Boxes of a tensor that is lost in part are told apart to this many rows.
constexpr std::int64_t kMostRows = 1024;

// Keeps of a leaf the rows whose bytes lie before the end of its file, as slices.
void keep_rows(std::uint64_t stored, RawLeaf& leaf) {
  TensorInfo& info = leaf.info;
  const RawRun run = leaf.array.runs.front();
  const auto axis = static_cast<std::size_t>(
      std::ranges::find_if(info.shape, [](std::int64_t n) { return n != 1; }) - info.shape.begin());
  leaf.slices.emplace();
  const bool is_packed = std::exchange(leaf.array, {}).in_byte > 1;
  if (axis == info.shape.size() || is_packed || info.element_size == 0) return;
  const std::int64_t all = info.shape[axis];
  const std::uint64_t row = info.stored_nbytes / static_cast<std::uint64_t>(all);
  info.chunk_shape = info.shape;
  info.chunk_shape[axis] = (all + kMostRows - 1) / kMostRows;
  const std::int64_t rows =
      static_cast<std::int64_t>(stored / row) / info.chunk_shape[axis] * info.chunk_shape[axis];
  if (rows == 0) return;
  Box box = Box::whole(info.shape);
  box.shape[axis] = rows;
  RawSlice slice{.array = {}, .box = std::move(box)};
  slice.array.runs.push_back({run.file, run.offset, row * static_cast<std::uint64_t>(rows)});
  leaf.slices->push_back(std::move(slice));
}

class Salvage {
 public:
  Salvage(const FileTree& tree, std::string path, std::vector<std::string>& notes)
      : tree_(tree), path_(std::move(path)), notes_(notes) {}

  void read_index(const std::string& index) {
    if (index.empty()) return;
    const auto map =
        try_call([&] { return parse_weight_map(as_text(tree_.read_text(index, kMaxIndexBytes))); });
    if (!map) {
      notes_.push_back(index + ": " + map.error().message() + "; the index is rebuilt");
      return;
    }
    for (const auto& [file, names] : map.value().files)
      for (const std::string& name : names) listed_[name] = file;
  }

  void add(const std::string& file) {
    const auto read = try_call([&] {
      read_file(file);
      return true;
    });
    if (read) return;
    if (read.error().code() == Code::kUnavailable) throw Error(read.error());
    notes_.push_back(file + ": " + read.error().message());
  }

  std::unique_ptr<Checkpoint> checkpoint(const OpenOptions& options) && {
    if (files_.empty())
      data_loss(notes_.empty() ? path_ + ": no safetensors files" : notes_.back());
    CheckpointInfo info{
        .format = "safetensors",
        .layout = fmt::format("safetensors, {} files without an index", files_.size()),
        .path = path_};
    info.custom_metadata = metadata_text(metadata_);
    info.file_metadata = std::move(metadata_);
    RawCheckpoint::Contents contents;
    for (const auto& [name, file] : listed_)
      if (!leaves_.contains(name)) lose(name, file + ": the tensor is not there");
    for (auto& [name, leaf] : leaves_) contents.add(std::move(leaf));
    contents.files = std::move(files_);
    contents.notes = std::move(found_);
    return std::make_unique<RawCheckpoint>(options, std::move(info), std::move(contents));
  }

 private:
  void read_file(const std::string& path) {
    File file = with_read_ahead(tree_.open(path));
    const std::uint64_t size = file.size();
    Bytes first(std::min<std::uint64_t>(size, kSafetensorsPrefix));
    file.read_into(0, first);
    // A damaged length may say anything: the JSON tells where it ends.
    const auto length = try_call([&] { return decode_safetensors_prefix(first, size); });
    std::uint64_t want = kSafetensorsPrefix + (length ? length.value() : std::uint64_t{1} << 20U);
    std::optional<SafetensorsRemains> remains;
    while (!remains) {
      first.resize(std::min(want, std::min(size, kSafetensorsPrefix + kSafetensorsMaxHeader)));
      file.read_into(0, first);
      auto decoded = try_call([&] { return decode_safetensors_remains(first, size); });
      if (decoded) {
        remains = std::move(decoded).value();
      } else if (first.size() < want) {
        throw Error(decoded.error());
      } else {
        want *= 4;
      }
    }
    add_new_keys(remains->header.metadata);
    const auto number = static_cast<std::uint32_t>(files_.size());
    for (SafetensorsEntry& entry : remains->header.tensors)
      add_leaf(std::move(entry), *remains, number, size, path);
    for (const auto& [name, why] : remains->refused) lose(name, path + ": " + why);
    files_.push_back(std::move(file));
  }

  void add_new_keys(const std::vector<std::pair<std::string, std::string>>& entries) {
    for (const auto& entry : entries)
      if (std::ranges::find(metadata_, entry.first, &std::pair<std::string, std::string>::first) ==
          metadata_.end())
        metadata_.push_back(entry);
  }

  void add_leaf(SafetensorsEntry entry, const SafetensorsRemains& remains, std::uint32_t number,
                std::uint64_t size, const std::string& path) {
    const std::string name = entry.name;
    const std::uint64_t begin = remains.data_start + entry.begin;
    const bool is_cut = entry.end > size - std::min(size, remains.data_start);
    RawLeaf leaf = make_leaf(std::move(entry), number, remains.data_start);
    if (is_cut) {
      found_.push_back(
          {.severity = Severity::kDamage,
           .tensor = name,
           .file = path,
           .message = fmt::format("the file ends at byte {}, before the tensor does", size)});
      keep_rows(size - std::min(size, begin), leaf);
    }
    const auto listed = listed_.find(name);
    const std::string_view file = name_of(path);
    if (listed != listed_.end() && listed->second != file)
      notes_.push_back(fmt::format("tensor \"{}\" is in {}, although the index names {}", name,
                                   file, listed->second));
    const auto [known, is_new] = leaves_.try_emplace(name, std::move(leaf));
    if (is_new) {
      file_of_[name] = file;
      return;
    }
    // Of two tensors of one name, the index tells which is meant.
    if (listed != listed_.end() && listed->second == file_of_[name]) return;
    if (listed != listed_.end() && listed->second == file) {
      known->second = std::move(leaf);
      file_of_[name] = file;
      return;
    }
    lose(name, fmt::format("the tensor is in {} and in {}", file_of_[name], file));
  }

  void lose(const std::string& name, const std::string& why) {
    leaves_.insert_or_assign(name, lost_leaf(name, Error(Code::kDataLoss, why)));
  }

  FileTree tree_;
  std::string path_;
  std::vector<std::string>& notes_;
  std::map<std::string, std::string> listed_;  // tensor: the file that the index names
  std::map<std::string, std::string> file_of_;
  std::map<std::string, RawLeaf> leaves_;
  std::vector<std::pair<std::string, std::string>> metadata_;
  std::vector<File> files_;
  std::vector<Finding> found_;
};

}  // namespace

std::unique_ptr<Checkpoint> salvage_safetensors(const FileTree& tree, const std::string& path,
                                                const std::vector<std::string>& files,
                                                const std::string& index,
                                                const OpenOptions& options,
                                                std::vector<std::string>& notes) {
  Salvage salvage(tree, path, notes);
  salvage.read_index(index);
  for (const std::string& file : files) salvage.add(file);
  return std::move(salvage).checkpoint(options);
}

}  // namespace cairn::inline v0
