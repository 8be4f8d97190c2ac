// reader.cc -- opens one .safetensors file, or an index (*.safetensors.index.json) and its shards:
//   {"metadata": {"total_size": bytes, ...},
//    "weight_map": {tensor name: file beside the index, ...}}
#include <cairn/base/errors.h>
#include <cairn/base/json/json.h>
#include <cairn/base/text.h>
#include <cairn/formats/files/foreign_content.h>
#include <cairn/formats/files/open_in_tree.h>
#include <cairn/formats/files/output_names.h>
#include <cairn/formats/files/weight_map.h>
#include <cairn/formats/raw/raw_checkpoint.h>
#include <cairn/formats/safetensors/header.h>
#include <cairn/formats/safetensors/model_folder.h>
#include <cairn/formats/safetensors/shard.h>
#include <cairn/formats/safetensors/sharded_tensors.h>
#include <cairn/io/tree/read_ahead.h>
#include <cairn/kvstore/folders/resolve.h>
#include <cairn/safetensors.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <span>

namespace cairn::inline v0 {
namespace {

constexpr std::size_t kMostShards = 5;  // that a warning lists

using Metadata = std::vector<std::pair<std::string, std::string>>;

// Where two files disagree about a key, the first file counts.
void add_new_keys(const Metadata& from, Metadata& to) {
  for (const auto& entry : from)
    if (std::none_of(to.begin(), to.end(), [&](const auto& e) { return e.first == entry.first; }))
      to.push_back(entry);
}

// An entry of one of the shards of a set.
struct ShardEntry {
  SafetensorsEntry entry;
  std::uint32_t file = 0;  // number of the shard
  std::uint64_t data_start = 0;
};

// A tensor that the index lists, but that cannot be read.
struct LostTensor {
  std::string name;
  std::string file;  // path of its shard
  Error why;
};

std::uint64_t stored_bytes(const std::vector<ShardEntry>& entries) {
  return std::accumulate(
      entries.begin(), entries.end(), std::uint64_t{0},
      [](std::uint64_t sum, const ShardEntry& e) { return sum + e.entry.end - e.entry.begin; });
}

// Mentions files that lie beside the opened ones and are not read.
void note_unread(const std::vector<std::string>& unread, CheckpointInfo& info,
                 std::vector<Finding>& notes) {
  for (const std::string& path : unread)
    notes.push_back({.severity = Severity::kNote,
                     .file = path,
                     .message = fmt::format("is not read: {} does not name it",
                                            is_index_name(info.path) ? info.path : "no index")});
  if (unread.empty()) return;
  const std::size_t shown = std::min(unread.size(), kMostShards);
  std::vector<std::string_view> names;
  for (const std::string& path : std::span(unread).first(shown)) names.push_back(name_of(path));
  info.warnings.push_back(
      fmt::format("{}: is read without {}{}, which {} beside it", info.path, fmt::join(names, ", "),
                  unread.size() > shown ? fmt::format(" and {} more", unread.size() - shown) : "",
                  unread.size() == 1 ? "lies" : "lie"));
}

std::unique_ptr<Checkpoint> open_file(const FileTree& tree, const std::string& path,
                                      const OpenOptions& options,
                                      const std::vector<std::string>& unread) {
  OpenShard shard = open_shard(tree, path);
  CheckpointInfo info{.format = "safetensors", .layout = "safetensors file", .path = path};
  const bool has_parts = has_sharded_tensors(shard.header);
  info.custom_metadata = metadata_text(shard.header.metadata);
  info.file_metadata = std::move(shard.header.metadata);
  info.facts.emplace_back("header bytes", std::to_string(shard.data_start));
  RawCheckpoint::Contents contents;
  contents.reserve(shard.header.tensors.size());
  for (auto& entry : shard.header.tensors)
    contents.add(make_leaf(std::move(entry), 0, shard.data_start));
  contents.files.push_back(std::move(shard.file));
  note_unread(unread, info, contents.notes);
  if (has_parts)
    info.warnings.push_back(path +
                            ": holds parts of tensors, as one process of several has saved them; "
                            "open its folder for the whole tensors");
  return std::make_unique<RawCheckpoint>(options, std::move(info), std::move(contents));
}

// Notes what a killed save has left: an index that names interim files, and interim files that the
// index does not name.
void note_unfinished(const FileTree& tree, const std::string& path, const WeightMap& index,
                     std::vector<Finding>& notes) {
  constexpr std::string_view kHow = "; `cairn clean` on the index completes the set";
  const auto is_interim = [&](std::string_view name) {
    return final_name_of_interim(name) && save_lock_path(name) == name_of(path);
  };
  const auto named = [&](const std::string& name) {
    return std::ranges::any_of(index.files, [&](const auto& file) { return file.first == name; });
  };
  if (std::ranges::any_of(index.files, [&](const auto& file) { return is_interim(file.first); }))
    notes.push_back({.severity = Severity::kNote,
                     .file = path,
                     .message = "names files by temporary names, because a save was interrupted" +
                                std::string(kHow)});
  const auto names = try_call([&] { return tree.names_in(parent_of(path)); });
  if (!names) return;
  for (const std::string& name : names.value())
    if (is_interim(name) && !named(name))
      notes.push_back({.severity = Severity::kNote,
                       .file = std::string(folder_prefix(path)) + name,
                       .message = "an interrupted save has left this file" + std::string(kHow)});
}

File open_index(const FileTree& tree, const std::string& path) {
  return with_context([&] { return path; }, [&] { return tree.open(path); });
}

WeightMap read_index(const File& file) {
  const std::string& path = file.path();
  // What is damaged in an index is more than that it is JSON.
  return explain_foreign(
      file,
      [&] {
        return with_context(
            [&] { return path; },
            [&] { return parse_weight_map(as_text(read_text(file, kMaxIndexBytes))); });
      },
      is_index_name(path) ? std::optional(ForeignKind::kJson) : std::nullopt);
}

std::vector<std::string> names_of(const WeightMap& index) {
  std::vector<std::string> names;
  for (const auto& [name, tensors] : index.files) names.push_back(name);
  return names;
}

// The shards of a set, and the tensors that the index lists.
class ShardSet {
 public:
  ShardSet(const FileTree& tree, const std::string& path)
      : tree_(tree),
        path_(path),
        index_file_(open_index(tree, path)),
        index_(read_index(index_file_)) {
    for (const auto& [name, listed] : index_.files) open(name, listed);
    std::sort(entries_.begin(), entries_.end(), by_name);
    std::sort(lost_.begin(), lost_.end(), by_name);
    drop_lost_entries();
    drop_doubles();
  }

  std::unique_ptr<Checkpoint> checkpoint(const OpenOptions& options,
                                         std::vector<std::string> unread) {
    CheckpointInfo info{.format = "safetensors",
                        .layout = fmt::format("safetensors set of {} files", index_.files.size()),
                        .path = path_};
    info.custom_metadata = index_.metadata;
    info.facts.emplace_back("shards", std::to_string(index_.files.size()));
    if (!metadata_.empty())
      info.facts.emplace_back("metadata of the files", metadata_text(metadata_));
    info.file_metadata = std::move(metadata_);
    info.warnings = std::move(warnings_);
    if (closed_ > 0) info.facts.emplace_back("shards that cannot be read", std::to_string(closed_));
    RawCheckpoint::Contents contents;
    add_notes(contents.notes);
    leave_missing(options, info);
    note_unfinished(tree_, path_, index_, contents.notes);
    add_strays(unread);
    note_unread(unread, info, contents.notes);
    add_leaves(contents);
    contents.files = std::move(files_);
    contents.indexes.push_back(std::move(index_file_));
    return std::make_unique<RawCheckpoint>(options, std::move(info), std::move(contents));
  }

 private:
  static const std::string& name(const ShardEntry& entry) { return entry.entry.name; }
  static const std::string& name(const LostTensor& tensor) { return tensor.name; }
  static constexpr auto by_name = [](const auto& a, const auto& b) { return name(a) < name(b); };
  [[nodiscard]] std::string shard_path(const std::string& name) const {
    return std::string(folder_prefix(path_)) + name;
  }

  // A shard that cannot be read does not prevent reading the others.
  void open(const std::string& name, const std::vector<std::string>& listed) {
    const std::string path = shard_path(name);
    auto shard = try_call([&] { return open_shard(tree_, path); });
    if (!shard) {
      // It has been replaced: what was read before is of another save.
      if (shard.error().code() == Code::kUnavailable) throw Error(shard.error());
      const bool is_missing = shard.error().code() == Code::kNotFound;
      const Error why =
          is_missing ? Error(Code::kDataLoss, path + ": the shard is missing") : shard.error();
      for (const std::string& tensor : listed) lost_.push_back({tensor, path, why});
      std::string text = fmt::format("{}: {}; the index lists {} tensor{} in it", path_,
                                     why.message(), listed.size(), listed.size() == 1 ? "" : "s");
      if (is_missing) missing_.push_back({"", path, path_, text, true});
      if (closed_++ < kMostShards) warnings_.push_back(std::move(text));
      return;
    }
    add_new_keys(shard.value().header.metadata, metadata_);
    check_listed(shard.value(), listed);
    for (const auto& entry : shard.value().header.tensors)
      entries_.push_back(
          {entry, static_cast<std::uint32_t>(files_.size()), shard.value().data_start});
    files_.push_back(std::move(shard).value().file);
  }

  void check_listed(const OpenShard& shard, const std::vector<std::string>& listed) {
    const auto& tensors = shard.header.tensors;
    for (const auto& name : listed) {
      const auto it =
          std::lower_bound(tensors.begin(), tensors.end(), name,
                           [](const auto& entry, const auto& n) { return entry.name < n; });
      if (it != tensors.end() && it->name == name) continue;
      lost_.push_back({name, shard.file.path(),
                       Error(Code::kDataLoss,
                             fmt::format("{}: the tensor is not in this file, although the index "
                                         "says so",
                                         shard.file.path()))});
    }
  }

  // A tensor that is in another shard than the index says is not read: nobody can tell which of the
  // two is right.
  void drop_lost_entries() {
    std::erase_if(entries_, [&](const ShardEntry& entry) {
      LostTensor* lost = find_lost(name(entry));
      if (lost == nullptr) return false;
      lost->why = Error(lost->why.code(), fmt::format("{}; it is in {}", lost->why.message(),
                                                      files_[entry.file].path()));
      return true;
    });
  }

  LostTensor* find_lost(const std::string& wanted) {
    const auto it = std::lower_bound(
        lost_.begin(), lost_.end(), wanted,
        [](const LostTensor& tensor, const std::string& n) { return tensor.name < n; });
    return it != lost_.end() && it->name == wanted ? &*it : nullptr;
  }

  // Nor is a tensor that is in two shards.
  void drop_doubles() {
    for (std::size_t i = 1; i < entries_.size(); ++i) {
      const ShardEntry& first = entries_[i - 1];
      const ShardEntry& second = entries_[i];
      if (name(first) != name(second)) continue;
      const std::string& path = files_[second.file].path();
      if (lost_.empty() || lost_.back().name != name(first))
        lost_.push_back(
            {name(first), path,
             Error(Code::kDataLoss, fmt::format("the tensor is in two shards, {} and {}",
                                                files_[first.file].path(), path))});
    }
    std::sort(lost_.begin(), lost_.end(), by_name);
    std::erase_if(entries_,
                  [&](const ShardEntry& entry) { return find_lost(name(entry)) != nullptr; });
  }

  // Leaves out the tensors of missing shards, if the caller allows it.
  void leave_missing(const OpenOptions& options, CheckpointInfo& info) {
    std::set<std::string_view> paths;
    for (MissingPart& part : missing_) {
      part.is_listed = !options.allow_missing;
      paths.insert(part.path);
    }
    if (options.allow_missing)
      std::erase_if(lost_, [&](const LostTensor& tensor) { return paths.contains(tensor.file); });
    info.missing = std::move(missing_);
    info.allow_missing = options.allow_missing;
  }

  void add_notes(std::vector<Finding>& notes) const {
    for (const LostTensor& tensor : lost_)
      notes.push_back({.severity = severity_of(tensor.why.code()),
                       .tensor = tensor.name,
                       .file = tensor.file,
                       .message = tensor.why.message()});
    std::vector<std::string_view> listed;
    for (const auto& [file, names] : index_.files)
      listed.insert(listed.end(), names.begin(), names.end());
    std::sort(listed.begin(), listed.end());
    for (const auto& [entry, file, data_start] : entries_)
      if (!std::binary_search(listed.begin(), listed.end(), std::string_view(entry.name)))
        notes.push_back({.severity = Severity::kNote,
                         .tensor = entry.name,
                         .file = files_[file].path(),
                         .message = "is in this shard, but the index does not list it"});
    const auto sum = stored_bytes(entries_);
    if (lost_.empty() && index_.total_size && *index_.total_size != sum)
      notes.push_back({.severity = Severity::kNote,
                       .file = path_,
                       .message = fmt::format("total_size is {}, but the tensors take {} bytes",
                                              *index_.total_size, sum)});
  }

  // Adds the files that have names of this set, and that the index does not name.
  void add_strays(std::vector<std::string>& unread) const {
    if (!is_index_name(path_)) return;
    std::string_view stem = name_of(path_);
    stem.remove_suffix(safetensors_index_path("").size());
    const std::string single = std::string(stem) + ".safetensors";
    const auto names = try_call([&] { return tree_.names_in(parent_of(path_)); });
    if (!names) return;
    for (const std::string& name : names.value())
      if ((name == single || is_safetensors_shard(name, stem)) && !index_.files.contains(name)) {
        std::string path = shard_path(name);
        if (std::find(unread.begin(), unread.end(), path) == unread.end())
          unread.push_back(std::move(path));
      }
  }

  // Adds all tensors, sorted by name.
  void add_leaves(RawCheckpoint::Contents& contents) {
    contents.reserve(entries_.size() + lost_.size());
    auto lost = lost_.begin();
    const auto add_lost = [&] {
      contents.add(lost_leaf(std::move(lost->name), lost->why));
      ++lost;
    };
    for (auto& [entry, file, data_start] : entries_) {
      while (lost != lost_.end() && lost->name < entry.name) add_lost();
      contents.add(make_leaf(std::move(entry), file, data_start));
    }
    while (lost != lost_.end()) add_lost();
  }

  FileTree tree_;
  std::string path_;
  File index_file_;
  WeightMap index_;
  Metadata metadata_;
  std::vector<File> files_;
  std::vector<ShardEntry> entries_;
  std::vector<LostTensor> lost_;
  std::vector<MissingPart> missing_;
  std::vector<std::string> warnings_;
  std::size_t closed_ = 0;  // number of shards that cannot be read
};

std::unique_ptr<Checkpoint> open_with(const FileTree& tree, const std::string& path,
                                      const OpenOptions& options, std::vector<std::string> unread) {
  Bytes first;
  {
    const File file = tree.open(path);
    first.resize(std::min<std::uint64_t>(file.size(), kProbeBytes));
    file.read_into(0, first);
  }
  if (is_index_name(path) || looks_like_json_object(first))
    return ShardSet(tree, path).checkpoint(options, std::move(unread));
  return open_file(tree, path, options, unread);
}

}  // namespace

std::vector<std::string> safetensors_index_files(const FileTree& tree, const std::string& index) {
  return names_of(read_index(open_index(tree, index)));
}

std::vector<std::string> safetensors_index_files(std::string_view text) {
  return names_of(parse_weight_map(text));
}

std::unique_ptr<Checkpoint> open_safetensors(const std::string& path, const OpenOptions& options) {
  const std::string place = normal_path(path);
  return open_safetensors(tree_around(place, options.store), place, options);
}

std::unique_ptr<Checkpoint> open_safetensors(const FileTree& tree, const std::string& path,
                                             const OpenOptions& options) {
  return open_with(tree, path, options, {});
}

std::unique_ptr<Checkpoint> open_safetensors(const FileTree& tree, const SafetensorsModel& model,
                                             const OpenOptions& options) {
  if (!model.sharded.empty()) return open_sharded_files(tree, model.path, model.sharded, options);
  return open_with(tree, model.path, options, model.unread);
}

}  // namespace cairn::inline v0
