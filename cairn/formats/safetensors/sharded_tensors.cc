#include <cairn/formats/safetensors/sharded_tensors.h>

#include <cairn/array/box.h>
#include <cairn/base/errors.h>
#include <cairn/base/json/json.h>
#include <cairn/formats/raw/coverage.h>
#include <cairn/formats/safetensors/shard.h>

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

namespace cairn::inline v0 {
namespace {

constexpr std::string_view kShardingInfo = "DCP_SHARDING_INFO";
constexpr std::string_view kShardPrefix = "shard-";
constexpr std::uint64_t kMostShardRanks = 1'000'000;

const std::string* sharding_info(const SafetensorsHeader& header) {
  for (const auto& [key, value] : header.metadata)
    if (key == kShardingInfo) return &value;
  return nullptr;
}

// 3 of "shard-00003-model-00001-of-00002.safetensors"; nullopt for any other name.
std::optional<std::uint64_t> rank_of(std::string_view name) {
  if (!name.starts_with(kShardPrefix)) return std::nullopt;
  name.remove_prefix(kShardPrefix.size());
  std::uint64_t rank = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), rank);
  const bool is_rank = error == std::errc() && end != name.data() + name.size() && *end == '-';
  return is_rank && rank <= kMostShardRanks ? std::optional(rank) : std::nullopt;
}

// Where each tensor of a file begins in the whole one.
std::map<std::string, Shape, std::less<>> parse_offsets(const std::string& text) {
  std::map<std::string, Shape, std::less<>> offsets;
  const Json json = parse_json(text);
  const JsonObject* object = json.as_object();
  if (object == nullptr) data_loss("it is not a JSON object");
  for (const auto& [name, value] : *object) {
    const Json* saved = value.find("saved_offsets");
    const JsonArray* list = saved == nullptr ? nullptr : saved->as_array();
    if (list == nullptr) data_loss("'" + name + "' has no saved_offsets");
    if (offsets.contains(name)) data_loss("'" + name + "' is there twice");
    Shape& offset = offsets[name];
    for (const Json& number : *list) {
      const auto at = number.as_int64();
      if (!at || *at < 0) data_loss("an offset of '" + name + "' is not a number from 0 on");
      offset.push_back(*at);
    }
  }
  return offsets;
}

// A part of a tensor, in one file.
struct SavedPart {
  SafetensorsEntry entry;
  std::uint32_t file = 0;
  std::uint64_t data_start = 0;
  Box box;
};

class ShardedFiles {
 public:
  ShardedFiles(const FileTree& tree, std::string folder, const std::vector<std::string>& names)
      : tree_(tree), folder_(std::move(folder)) {
    for (const std::string& name : names) add_file(name);
    add_missing_ranks(names);
  }

  std::unique_ptr<Checkpoint> checkpoint(const OpenOptions& options) && {
    for (auto& [name, parts] : parts_) add_tensor(name, parts, options.allow_missing);
    CheckpointInfo info{.format = "safetensors",
                        .layout = fmt::format("safetensors files of {} processes", ranks_.size())};
    info.path = folder_;
    info.custom_metadata = metadata_text(metadata_);
    info.file_metadata = std::move(metadata_);
    info.facts.emplace_back("files", std::to_string(contents_.files.size()));
    for (const MissingPart& part : missing_) info.warnings.push_back(part.text);
    info.missing = std::move(missing_);
    info.allow_missing = options.allow_missing;
    return std::make_unique<RawCheckpoint>(options, std::move(info), std::move(contents_));
  }

 private:
  void add_file(const std::string& name) {
    const std::string path = folder_ + "/" + name;
    OpenShard shard = open_shard(tree_, path);
    const std::string* text = sharding_info(shard.header);
    if (text == nullptr)
      invalid_argument(
          fmt::format("{}: has no {}, as the other files of the folder have", path, kShardingInfo));
    const auto offsets = with_context([&] { return fmt::format("{}: {}", path, kShardingInfo); },
                                      [&] { return parse_offsets(*text); });
    const auto file = static_cast<std::uint32_t>(contents_.files.size());
    for (SafetensorsEntry& entry : shard.header.tensors) {
      const auto offset = offsets.find(entry.name);
      if (offset == offsets.end())
        data_loss(fmt::format("{}: {} has no offset for '{}'", path, kShardingInfo, entry.name));
      Box box = {.origin = offset->second, .shape = entry.shape};
      with_context([&] { return fmt::format("{}: {}", path, entry.name); },
                   [&] { check_box(box); });
      const std::string tensor = entry.name;
      parts_[tensor].push_back({std::move(entry), file, shard.data_start, std::move(box)});
    }
    for (auto& entry : shard.header.metadata)
      if (entry.first != kShardingInfo &&
          std::ranges::find(metadata_, entry.first, &std::pair<std::string, std::string>::first) ==
              metadata_.end())
        metadata_.push_back(std::move(entry));
    contents_.files.push_back(std::move(shard.file));
    if (const auto rank = rank_of(name)) ranks_.insert(*rank);
  }

  static void check_box(const Box& box) {
    if (box.origin.size() != box.shape.size())
      data_loss(
          fmt::format("it has {} dimensions, but {} offsets", box.shape.size(), box.origin.size()));
    for (std::size_t d = 0; d < box.rank(); ++d)
      if (box.origin[d] > INT64_MAX - box.shape[d]) data_loss("it ends beyond 2^63 - 1");
  }

  // Ranks are numbered from 1 without gaps.
  void add_missing_ranks(const std::vector<std::string>& names) {
    if (ranks_.empty()) return;
    for (std::uint64_t rank = 1; rank < *ranks_.rbegin(); ++rank) {
      if (ranks_.contains(rank)) continue;
      std::string text =
          fmt::format("{}: the files of rank {} are missing; there is one of a later rank, {}",
                      folder_, rank, names.back());
      contents_.notes.push_back({.severity = Severity::kDamage,
                                 .file = folder_,
                                 .message = fmt::format("the files of rank {} are missing", rank)});
      missing_.push_back({.item = "", .path = folder_, .record = "", .text = std::move(text)});
      if (missing_.size() == 10) return;
    }
  }

  void add_tensor(const std::string& name, std::vector<SavedPart>& parts, bool allow_missing) {
    const auto added = try_call([&] {
      std::int64_t stored = 0;
      RawLeaf leaf = whole_tensor(parts, stored);
      const std::int64_t all = element_count(leaf.info.shape);
      if (stored != all && allow_missing && !missing_.empty()) return true;
      if (stored != all)
        contents_.notes.push_back(
            {.severity = Severity::kDamage,
             .tensor = name,
             .file = folder_,
             .message = fmt::format("its parts hold {} of its {} elements", stored, all)});
      contents_.add(std::move(leaf));
      return true;
    });
    if (added) return;
    contents_.notes.push_back({.severity = severity_of(added.error().code()),
                               .tensor = name,
                               .file = contents_.files[parts.front().file].path(),
                               .message = added.error().message()});
    contents_.add(lost_leaf(name, added.error()));
  }

  // `stored`: how many of its elements the parts have.
  RawLeaf whole_tensor(std::vector<SavedPart>& parts, std::int64_t& stored) {
    RawLeaf leaf = make_leaf(parts.front().entry, parts.front().file, parts.front().data_start);
    leaf.array = {};
    leaf.slices.emplace();
    leaf.info.stored_nbytes = 0;
    std::vector<Box> boxes;
    for (const SavedPart& part : parts) {
      if (part.entry.type != parts.front().entry.type ||
          part.box.rank() != parts.front().box.rank())
        data_loss("its parts have different types or numbers of dimensions");
      boxes.push_back(part.box);
      leaf.info.stored_nbytes += part.entry.end - part.entry.begin;
    }
    set_shape(leaf.info, parts);
    const Coverage coverage = cover(boxes, steps_);
    // PyTorch stores each element once.
    if (!coverage.doubles.empty())
      data_loss(fmt::format("{} of it is in two files, as if two saves had left them; one is {}",
                            box_text(coverage.doubles.front().box),
                            path_of(parts[coverage.doubles.front().chunk])));
    for (const ChunkPart& part : coverage.parts)
      leaf.slices->push_back({.array = array_of(parts[part.chunk]), .box = part.box});
    stored = coverage.elements;
    return leaf;
  }

  static RawArray array_of(const SavedPart& part) {
    return make_leaf(part.entry, part.file, part.data_start).array;
  }

  // The whole tensor ends where its last part ends.
  static void set_shape(TensorInfo& info, const std::vector<SavedPart>& parts) {
    Shape shape(parts.front().box.rank());
    for (const SavedPart& part : parts)
      for (std::size_t d = 0; d < shape.size(); ++d)
        shape[d] = std::max(shape[d], part.box.origin[d] + part.box.shape[d]);
    const SafetensorsType& type = safetensors_types()[parts.front().entry.type];
    const auto bytes = try_call([&] { return safetensors_nbytes(type, shape); });
    if (!bytes || !bytes.value()) data_loss("its parts are those of a tensor that no file holds");
    info.nbytes = type.bits == 4 ? 2 * *bytes.value() : *bytes.value();
    if (parts.size() > 1 && !shape.empty()) info.chunk_shape = parts.front().box.shape;
    info.shape = std::move(shape);
  }

  [[nodiscard]] const std::string& path_of(const SavedPart& part) const {
    return contents_.files[part.file].path();
  }

  const FileTree& tree_;
  std::string folder_;
  std::map<std::string, std::vector<SavedPart>> parts_;  // by tensor
  std::set<std::uint64_t> ranks_;
  std::vector<std::pair<std::string, std::string>> metadata_;  // of all files
  std::vector<MissingPart> missing_;
  RawCheckpoint::Contents contents_;
  std::uint64_t steps_ = kCoverSteps;
};

}  // namespace

bool has_sharded_tensors(const SafetensorsHeader& header) {
  return sharding_info(header) != nullptr;
}

bool are_sharded_files(const FileTree& tree, const std::string& folder,
                       const std::vector<std::string>& names) {
  if (names.empty() || !rank_of(names.front())) return false;
  const auto first = try_look(tree.is_local(), [&] {
    return has_sharded_tensors(open_shard(tree, folder + "/" + names.front()).header);
  });
  return first.ok() && first.value();
}

std::unique_ptr<Checkpoint> open_sharded_files(const FileTree& tree, const std::string& folder,
                                               const std::vector<std::string>& names,
                                               const OpenOptions& options) {
  return ShardedFiles(tree, folder, names).checkpoint(options);
}

}  // namespace cairn::inline v0
