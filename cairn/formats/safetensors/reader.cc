// reader.cc -- opens one .safetensors file, or an index (*.safetensors.index.json) and its shards:
//   {"metadata": {"total_size": bytes, ...},
//    "weight_map": {tensor name: file beside the index, ...}}
#include <cairn/base/errors.h>
#include <cairn/base/git_lfs.h>
#include <cairn/base/json/json.h>
#include <cairn/base/text.h>
#include <cairn/formats/files/output_names.h>
#include <cairn/formats/raw/raw_checkpoint.h>
#include <cairn/formats/safetensors/header.h>
#include <cairn/formats/safetensors/set.h>
#include <cairn/io/directory.h>
#include <cairn/safetensors.h>
#include <cairn/tensorflow.h>

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <numeric>

namespace cairn::inline v0 {
namespace {

// A file with its header read and checked.
struct OpenShard {
  File file;
  std::uint64_t data_start;
  SafetensorsHeader header;
};

OpenShard open_shard(const std::string& path) {
  return with_context([&] { return path; },
                      [&] {
                        File file = File::open(path);
                        const std::uint64_t size = file.size();
                        Bytes prefix(std::min(kSafetensorsPrefix, size));
                        file.read_into(0, prefix);
                        if (as_text(prefix) == kLfsPointer.substr(0, kSafetensorsPrefix)) {
                          Bytes first(std::min<std::uint64_t>(kLfsPointer.size(), size));
                          file.read_into(0, first);
                          if (is_lfs_pointer(first)) data_loss(std::string(kIsLfsPointer));
                        }
                        Bytes json(decode_safetensors_prefix(prefix, size));
                        file.read_into(kSafetensorsPrefix, json);
                        const std::uint64_t data_start = kSafetensorsPrefix + json.size();
                        return OpenShard{std::move(file), data_start,
                                         decode_safetensors_header(json, size - data_start)};
                      });
}

RawLeaf make_leaf(SafetensorsEntry entry, std::uint32_t file, std::uint64_t data_start) {
  const SafetensorsType& type = safetensors_types()[entry.type];
  RawLeaf leaf;
  leaf.info.path = {{entry.name, KeyType::kDict}};  // a name is one flat key, even if it has dots
  leaf.info.name = std::move(entry.name);
  leaf.info.typestr = "np.ndarray";
  leaf.info.dtype = type.dtype.value_or(DType::kOpaque);
  leaf.info.dtype_name = type.dtype ? dtype_name(*type.dtype) : type.name;
  leaf.info.element_size = type.dtype ? dtype_size(*type.dtype) : 0;
  leaf.info.stored_nbytes = entry.end - entry.begin;
  leaf.info.nbytes = type.bits == 4 ? 2 * leaf.info.stored_nbytes : leaf.info.stored_nbytes;
  leaf.info.shape = std::move(entry.shape);
  leaf.array.packed = type.bits == 4;
  leaf.array.runs.push_back({file, data_start + entry.begin, leaf.info.stored_nbytes});
  if (!type.dtype) leaf.unreadable = fmt::format("elements of type {} cannot be read", type.name);
  return leaf;
}

std::string metadata_text(const std::vector<std::pair<std::string, std::string>>& metadata) {
  if (metadata.empty()) return "";
  JsonObject object;
  for (const auto& [key, value] : metadata) object.emplace_back(key, Json(value));
  return to_text(Json(std::move(object)));
}

using Metadata = std::vector<std::pair<std::string, std::string>>;

// Where two files disagree about a key, the first file counts.
void add_new_keys(const Metadata& from, Metadata& to) {
  for (const auto& entry : from)
    if (std::none_of(to.begin(), to.end(), [&](const auto& e) { return e.first == entry.first; }))
      to.push_back(entry);
}

// The content of an index.
struct FileIndex {
  std::map<std::string, std::vector<std::string>> files;  // file: tensors in it
  std::optional<std::uint64_t> total_size;
  std::string metadata;  // JSON text
};

// Accepts only files in the index's folder or below it.
void check_file_name(std::string_view name) {
  if (name.find('\0') != std::string_view::npos || name.find('\\') != std::string_view::npos ||
      !is_below_folder(name))
    throw Error(
        Code::kDataLoss,
        fmt::format("weight_map names the file \"{}\", which is not in the index's folder", name));
}

FileIndex parse_index(std::string_view text) {
  const Json root = parse_json(text);
  const Json* map = root.find("weight_map");
  if (map == nullptr || map->as_object() == nullptr)
    throw Error(Code::kDataLoss, "no object \"weight_map\" in the index");
  FileIndex index;
  for (const auto& [name, file] : *map->as_object()) {
    const auto* file_name = file.as_string();
    if (file_name == nullptr)
      throw Error(Code::kDataLoss,
                  fmt::format("weight_map: \"{}\" is {}, not a file name", name, file.type_text()));
    check_file_name(*file_name);
    index.files[*file_name].push_back(name);
  }
  if (const Json* metadata = root.find("metadata"); metadata != nullptr) {
    index.metadata = to_text(*metadata);
    if (const Json* total = metadata->find("total_size")) index.total_size = total->as_uint64(true);
  }
  return index;
}

// An entry of one of the shards of a set.
struct ShardEntry {
  SafetensorsEntry entry;
  std::uint32_t file = 0;  // number of the shard
  std::uint64_t data_start = 0;
};

std::uint64_t stored_bytes(const std::vector<ShardEntry>& entries) {
  return std::accumulate(
      entries.begin(), entries.end(), std::uint64_t{0},
      [](std::uint64_t sum, const ShardEntry& e) { return sum + e.entry.end - e.entry.begin; });
}

std::unique_ptr<Checkpoint> open_file(const std::string& path, const OpenOptions& options) {
  OpenShard shard = open_shard(path);
  CheckpointInfo info{.format = "safetensors", .layout = "safetensors file", .path = path};
  info.custom_metadata = metadata_text(shard.header.metadata);
  info.file_metadata = std::move(shard.header.metadata);
  info.facts.emplace_back("header bytes", std::to_string(shard.data_start));
  RawCheckpoint::Contents contents;
  contents.reserve(shard.header.tensors.size());
  for (auto& entry : shard.header.tensors)
    contents.add(make_leaf(std::move(entry), 0, shard.data_start));
  contents.files.push_back(std::move(shard.file));
  return std::make_unique<RawCheckpoint>(options, std::move(info), std::move(contents));
}

void check_listed(const OpenShard& shard, const std::vector<std::string>& listed) {
  const auto& tensors = shard.header.tensors;
  for (const auto& name : listed) {
    const auto it =
        std::lower_bound(tensors.begin(), tensors.end(), name,
                         [](const auto& entry, const auto& n) { return entry.name < n; });
    if (it == tensors.end() || it->name != name)
      throw Error(Code::kDataLoss,
                  fmt::format("{}: tensor \"{}\" is not in this file, although the index says so",
                              shard.file.path(), name));
  }
}

// Checks the entries of all shards, sorted by name, against the index and adds notes.
void check_and_note(const std::string& path, const FileIndex& index,
                    const std::vector<ShardEntry>& entries, const std::vector<File>& files,
                    std::vector<Finding>& notes) {
  const auto twice =
      std::adjacent_find(entries.begin(), entries.end(),
                         [](const auto& a, const auto& b) { return a.entry.name == b.entry.name; });
  if (twice != entries.end())
    throw Error(Code::kDataLoss,
                fmt::format("tensor \"{}\" is in two shards, {} and {}", twice->entry.name,
                            files[twice->file].path(), files[(twice + 1)->file].path()));
  std::vector<std::string_view> listed;
  for (const auto& [file, names] : index.files)
    listed.insert(listed.end(), names.begin(), names.end());
  std::sort(listed.begin(), listed.end());
  for (const auto& [entry, file, data_start] : entries)
    if (!std::binary_search(listed.begin(), listed.end(), std::string_view(entry.name)))
      notes.push_back({.severity = Severity::kNote,
                       .tensor = entry.name,
                       .file = files[file].path(),
                       .message = "is in this shard, but the index does not list it"});
  if (const auto sum = stored_bytes(entries); index.total_size && *index.total_size != sum)
    notes.push_back({.severity = Severity::kNote,
                     .file = path,
                     .message = fmt::format("total_size is {}, but the tensors take {} bytes",
                                            *index.total_size, sum)});
}

// Notes what a killed save has left: an index that names interim files, and interim files that the
// index does not name.
void note_unfinished(const std::string& path, const FileIndex& index, std::vector<Finding>& notes) {
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
  const std::string folder = parent_of(path);
  const auto entries = try_call([&] { return Directory::open(folder).list(); });
  if (!entries) return;
  for (const DirectoryEntry& entry : entries.value())
    if (is_interim(entry.name) && !named(entry.name))
      notes.push_back({.severity = Severity::kNote,
                       .file = std::string(folder_prefix(path)) + entry.name,
                       .message = "an interrupted save has left this file" + std::string(kHow)});
}

FileIndex read_index(const std::string& path) {
  return with_context([&] { return path; },
                      [&] { return parse_index(as_text(read_text_file(path, kMaxIndexBytes))); });
}

// Opens a shard of an index. If the file is missing, the set is damaged.
OpenShard open_shard_of(const std::string& index_path, const std::string& name,
                        const std::vector<std::string>& listed) {
  const std::string path = (std::filesystem::path(index_path).parent_path() / name).string();
  return with_context([&] { return "shard of " + index_path; },
                      [&] {
                        auto shard = try_call([&] { return open_shard(path); });
                        if (!shard && shard.error().code() == Code::kNotFound)
                          throw Error(Code::kDataLoss, path + ": the shard is missing");
                        if (!shard) throw shard.error();
                        check_listed(shard.value(), listed);
                        return std::move(shard).value();
                      });
}

std::unique_ptr<Checkpoint> open_set(const std::string& path, const OpenOptions& options) {
  const FileIndex index = read_index(path);
  Metadata metadata;
  RawCheckpoint::Contents contents;
  std::vector<File>& files = contents.files;
  std::vector<ShardEntry> entries;
  for (const auto& [name, listed] : index.files) {
    OpenShard shard = open_shard_of(path, name, listed);
    add_new_keys(shard.header.metadata, metadata);
    for (auto& entry : shard.header.tensors)
      entries.push_back(
          {std::move(entry), static_cast<std::uint32_t>(files.size()), shard.data_start});
    files.push_back(std::move(shard.file));
  }
  std::sort(entries.begin(), entries.end(),
            [](const ShardEntry& a, const ShardEntry& b) { return a.entry.name < b.entry.name; });
  with_context([&] { return path; },
               [&] { check_and_note(path, index, entries, files, contents.notes); });
  note_unfinished(path, index, contents.notes);
  contents.reserve(entries.size());
  for (auto& [entry, file, data_start] : entries)
    contents.add(make_leaf(std::move(entry), file, data_start));
  CheckpointInfo info{.format = "safetensors",
                      .layout = fmt::format("safetensors set of {} files", files.size()),
                      .path = path};
  info.custom_metadata = index.metadata;
  info.facts.emplace_back("shards", std::to_string(files.size()));
  if (!metadata.empty()) info.facts.emplace_back("metadata of the files", metadata_text(metadata));
  info.file_metadata = std::move(metadata);
  return std::make_unique<RawCheckpoint>(options, std::move(info), std::move(contents));
}

}  // namespace

std::vector<std::string> safetensors_index_files(const std::string& index) {
  std::vector<std::string> names;
  for (const auto& [name, tensors] : read_index(index).files) names.push_back(name);
  return names;
}

std::unique_ptr<Checkpoint> open_safetensors(const std::string& path, const OpenOptions& options) {
  Bytes first;
  {
    const File file = File::open(path);
    first.resize(std::min<std::uint64_t>(file.size(), kProbeBytes));
    file.read_into(0, first);
  }
  return path.ends_with(".index.json") || looks_like_json_object(first) ? open_set(path, options)
                                                                        : open_file(path, options);
}

std::vector<Finding> check_safetensors_set(const std::string& path) {
  const auto index = try_call([&] { return read_index(path); });
  std::vector<Finding> findings;
  if (!index) return findings;
  for (const auto& [name, listed] : index.value().files) {
    const auto shard = try_call(
        [&, &file = name, &tensors = listed] { return open_shard_of(path, file, tensors); });
    if (shard) continue;
    findings.push_back({.severity = severity_of(shard.error().code()),
                        .tensor = {},
                        .file = (std::filesystem::path(path).parent_path() / name).string(),
                        .offset = 0,
                        .message = shard.error().message()});
  }
  return findings;
}

}  // namespace cairn::inline v0
