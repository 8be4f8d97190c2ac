// web_names.cc -- each record is read, and the names in it are asked for. What is wrong with a
// record is not said here: opening the checkpoint reads it again.
#include <cairn/tools/web/web_names.h>

#include <cairn/base/json/json.h>
#include <cairn/formats/tensorflow/index/checkpoint_state.h>
#include <cairn/orbax/layout/item_kinds.h>
#include <cairn/orbax/layout/layout.h>
#include <cairn/tree/metadata/tree_metadata.h>
#include <cairn/tree/msgpack/array_specs.h>
#include <cairn/tree/msgpack/msgpack.h>
#include <cairn/zarr/metadata/array_metadata.h>
#include <cairn/zarr/metadata/chunk_grid.h>

#include <algorithm>
#include <array>
#include <utility>

namespace cairn::inline v0 {
namespace {

using Need = KnownNames::Need;
using Names = std::vector<std::string>;

// No checkpoint has a file of this name.
constexpr std::string_view kNoFile = ".cairn-no-such-file";
// Records above this size are read by the opening alone.
constexpr std::uint64_t kMostRecord = std::uint64_t{256} << 20U;

constexpr std::array<std::string_view, 5> kArrayFiles = {".zarray", "zarr.json", ".zattrs",
                                                         ".zgroup", ".zmetadata"};
// What people call the items of checkpoints without records of them.
constexpr std::array<std::string_view, 5> kUsualItems = {"default", "state", "params", "pytree",
                                                         "train_state"};
constexpr std::array<std::string_view, 4> kModels = {"model", "diffusion_pytorch_model",
                                                     "adapter_model", "pytorch_model"};

template <class List>
Names below(const std::string& folder, const List& names) {
  Names keys;
  for (const auto& name : names) keys.push_back(folder + std::string(name));
  return keys;
}

// The files that are in every checkpoint, and in most items.
Names marker_files(const std::string& folder) {
  return below(folder, std::array{orbax::kTreeMetadataFile, orbax::kManifestFile,
                                  orbax::kCheckpointMetadataFile});
}

// "folder/process_0" and so on, or files in such folders.
Names numbered(const std::string& prefix, std::size_t first, std::size_t count,
               std::string_view rest) {
  Names keys;
  for (std::size_t i = first; i < first + count; ++i)
    keys.push_back(prefix + std::to_string(i) + std::string(rest));
  return keys;
}

constexpr std::string_view kManifestInside = "/manifest.ocdbt";

std::string process_metadata(const std::string& folder) {
  return folder + std::string(orbax::kArrayMetadataFolder) + "/" +
         std::string(orbax::kArrayMetadataPrefix);
}

std::string process_database(const std::string& folder) {
  return folder + std::string(orbax::kProcessPrefix);
}

Names item_files(const std::string& folder, const std::string& aggregate) {
  Names keys = below(
      folder, std::array{orbax::kTreeMetadataFile, orbax::kManifestFile, orbax::kCommitFile,
                         orbax::kShardingFile, orbax::kStringsFile, std::string_view(aggregate)});
  keys.push_back(process_metadata(folder) + "0");
  keys.push_back(process_database(folder) + "0" + std::string(kManifestInside));
  return keys;
}

void add(Names& keys, Names more) {
  for (std::string& key : more) keys.push_back(std::move(key));
}

// Runs f, which parses a record. Damage of the record means that it names nothing more.
template <class F>
void if_readable(F f) {
  (void)try_call([&] { return f(), true; });
}

// The number of chunks; more than `most` count as most + 1.
std::size_t number_of_chunks(const Shape& grid, std::size_t most) {
  std::size_t count = 1;
  if (std::ranges::count(grid, 0) > 0) return 0;
  for (const std::int64_t n : grid) {
    if (static_cast<std::uint64_t>(n) > most / count) return most + 1;
    count *= static_cast<std::size_t>(n);
  }
  return count;
}

Names member_names(const Json* object) {
  Names names;
  if (object != nullptr && object->as_object() != nullptr)
    for (const auto& [name, value] : *object->as_object()) names.push_back(name);
  return names;
}

}  // namespace

std::optional<std::string> WebNames::text_of(const std::string& key) const {
  if (!names_->has(key)) return std::nullopt;
  const auto size = names_->size(key);
  if (!size || *size > kMostRecord) return std::nullopt;
  const auto source = names_->open_listed({.key = key, .size = *size});
  if (!source) return std::nullopt;
  Bytes bytes(source->size());
  if (!bytes.empty()) source->read_into(0, bytes);
  return std::string(as_text(bytes));
}

void WebNames::find_checkpoint(const std::string& folder) const {
  const std::string none = folder + std::string(kNoFile);
  Names keys = item_files(folder, options_.aggregate_filename);
  add(keys, below(folder, kArrayFiles));
  add(keys, below(folder, std::array{orbax::kCheckpointMetadataFile, orbax::kV1Marker,
                                     std::string_view("saved_model.pb"), kCheckpointStateFile}));
  for (const std::string_view model : kModels)
    add(keys,
        below(folder + std::string(model), std::array{".safetensors.index.json", ".safetensors"}));
  keys.push_back(folder + "variables/variables.index");
  keys.push_back(none);
  names_->ask(keys, Need::kContent);
  if (names_->has(none))
    throw Error(Code::kUnimplemented,
                names_->describe(folder) +
                    ": the server answers for names that do not exist, so Cairn cannot tell which "
                    "files there are; give the URL of a file, or copy the checkpoint");
  find_tree(folder);
  find_items(folder);
  find_group(folder);
  find_chunks(folder);
  find_models(folder);
  find_tensorflow(folder);
}

bool WebNames::has_markers(const std::string& folder) const {
  const Names markers = marker_files(folder);
  names_->ask(markers, Need::kContent);
  return std::ranges::any_of(markers, [&](const std::string& key) { return names_->has(key); });
}

void WebNames::find_items(const std::string& folder) const {
  Names items;
  const auto text = text_of(folder + std::string(orbax::kCheckpointMetadataFile));
  if (text)
    if_readable([&] {
      for (const auto& [name, handler] : orbax::parse_checkpoint_metadata(*text).item_handlers)
        items.push_back(name);
    });
  const bool is_item = names_->has(folder + std::string(orbax::kTreeMetadataFile)) ||
                       names_->has(folder + std::string(orbax::kManifestFile));
  if (items.empty() && !is_item)
    for (const std::string_view item : kUsualItems)
      if (has_markers(folder + std::string(item) + "/")) items.emplace_back(item);
  if (options_.item && !is_item) items.push_back(*options_.item);
  for (const std::string& item : items)
    if (item.empty())
      find_random_keys(folder);
    else if (item.find('/') == std::string::npos && item != "." && item != "..")
      find_item(folder + item + "/", item);
}

void WebNames::find_item(const std::string& folder, const std::string& name) const {
  Names keys = item_files(folder, options_.aggregate_filename);
  add(keys, below(folder, orbax::json_item_files(name)));
  add(keys, below(folder, std::array{orbax::kProtoItemFile}));
  names_->ask(keys, Need::kContent);
  find_tree(folder);
  find_random_keys(folder);
}

// The array of a random key, and the single array of an item.
void WebNames::find_random_keys(const std::string& folder) const {
  if (names_->has(folder + std::string(orbax::kTreeMetadataFile)) ||
      names_->has(folder + std::string(orbax::kManifestFile)))
    return;
  const std::string array = std::string(orbax::kArrayItemKey) + "/";
  Names keys = below(folder + array, kArrayFiles);
  for (const std::string_view key : {orbax::kJaxRandomKeyFolder, orbax::kNumpyRandomKeyFolder}) {
    const std::string name = folder + std::string(key);
    add(keys, item_files(name + "/", options_.aggregate_filename));
    add(keys, below(name + "/" + array, kArrayFiles));
    keys.push_back(name + "_metadata/" + std::string(orbax::kJsonItemFile));
  }
  names_->ask(keys, Need::kContent);
  find_chunks(folder + array);
  for (const std::string_view key : {orbax::kJaxRandomKeyFolder, orbax::kNumpyRandomKeyFolder}) {
    find_tree(folder + std::string(key) + "/");
    find_chunks(folder + std::string(key) + "/" + array);
  }
}

void WebNames::find_process_files(const std::string& prefix, std::string_view rest) const {
  constexpr std::size_t kAtOnce = 16;
  for (std::size_t last = 0; names_->has(prefix + std::to_string(last) + std::string(rest));
       last += kAtOnce)
    names_->ask(numbered(prefix, last + 1, kAtOnce, rest), Need::kContent);
}

// The arrays that the file of older versions of Orbax names.
std::vector<std::string> WebNames::aggregate_arrays(const std::string& folder) const {
  Names arrays;
  const auto text = text_of(folder + options_.aggregate_filename);
  if (!text) return arrays;
  if_readable([&] {
    Tree parsed = parse_msgpack(as_bytes(*text), {.integer_keys = false});
    for (const StoredElsewhere& array : take_array_specs(parsed))
      arrays.push_back(folder + array.folder + "/");
    list_msgpack_leaves(parsed, text->size(), [&](const MsgpackLeaf& leaf) {
      if (leaf.kind == MsgpackKind::kString && !leaf.pieces.empty() &&
          as_text(leaf.pieces.front()).starts_with(kArrayPlaceholder))
        arrays.push_back(folder + param_name(leaf.path) + "/");
    });
  });
  return arrays;
}

// The database leads its readers to its data files.
void WebNames::find_tree(const std::string& folder) const {
  find_process_files(process_metadata(folder), "");
  find_process_files(process_database(folder), kManifestInside);
  if (names_->has(folder + std::string(orbax::kManifestFile))) return;
  Names arrays = aggregate_arrays(folder);
  const auto text = text_of(folder + std::string(orbax::kTreeMetadataFile));
  if (text)
    if_readable([&] {
      const TreeMetadata tree = parse_tree_metadata(*text);
      for (const LeafMetadata& leaf : tree.leaves)
        if (!leaf.skip_deserialize && leaf.value_type != "string")
          arrays.push_back(folder + param_name(leaf.path) + "/");
    });
  find_arrays(arrays);
}

void WebNames::find_arrays(const std::vector<std::string>& folders) const {
  Names keys;
  for (const std::string& folder : folders)
    add(keys, below(folder, std::array{".zarray", "zarr.json"}));
  names_->ask(keys, Need::kContent);
  for (const std::string& folder : folders) find_chunks(folder);
}

void WebNames::find_chunks(const std::string& folder) const {
  Names keys;
  for (const std::string_view name : {".zarray", "zarr.json"}) {
    const auto text = text_of(folder + std::string(name));
    if (!text) continue;
    if_readable([&] {
      const zarr::ArrayMetadata array =
          name == ".zarray" ? zarr::parse_zarray(*text) : zarr::parse_zarr_json(*text);
      const Shape grid = zarr::grid_shape(array.shape, array.chunk_shape);
      const std::size_t left = names_->names_left();
      const std::size_t chunks = number_of_chunks(grid, left);
      if (chunks > left) {  // ask() says so
        keys.assign(left + 1, std::string());
        return;
      }
      for (std::size_t i = 0; i < chunks; ++i)
        keys.push_back(folder +
                       array.keys.key(zarr::grid_position(grid, static_cast<std::int64_t>(i))));
    });
  }
  names_->ask(keys, Need::kSize);
}

// Consolidated metadata names all arrays below a group.
void WebNames::find_group(const std::string& folder) const {
  Names arrays;
  if (const auto text = text_of(folder + ".zmetadata"))
    if_readable([&] {
      const Json json = parse_json(*text);
      for (const std::string& name : member_names(json.find("metadata")))
        if (name.ends_with("/.zarray"))
          arrays.push_back(folder +
                           name.substr(0, name.size() - std::string_view(".zarray").size()));
    });
  if (const auto text = text_of(folder + "zarr.json"))
    if_readable([&] {
      const Json json = parse_json(*text);
      const Json* consolidated = json.find("consolidated_metadata");
      if (consolidated == nullptr || consolidated->as_object() == nullptr) return;
      for (const std::string& name : member_names(consolidated->find("metadata")))
        arrays.push_back(folder + name + "/");
    });
  find_arrays(arrays);
}

void WebNames::find_models(const std::string& folder) const {
  for (const std::string_view model : kModels) {
    const auto text = text_of(folder + std::string(model) + ".safetensors.index.json");
    if (!text) continue;
    Names shards;
    if_readable([&] {
      const Json json = parse_json(*text);
      const Json* map = json.find("weight_map");
      if (map == nullptr || map->as_object() == nullptr) return;
      for (const auto& [tensor, shard] : *map->as_object())
        if (shard.as_string() != nullptr) shards.push_back(folder + *shard.as_string());
    });
    std::ranges::sort(shards);
    shards.erase(std::unique(shards.begin(), shards.end()), shards.end());
    names_->ask(shards, Need::kContent);
  }
}

void WebNames::find_tensorflow(const std::string& folder) const {
  const auto text = text_of(folder + std::string(kCheckpointStateFile));
  if (!text) return;
  const Result<CheckpointState> state = parse_checkpoint_state(*text);
  if (!state.ok()) return;
  Names keys;
  const auto add_prefix = [&](const std::string& path) {
    if (!path.empty() && !path.starts_with('/')) keys.push_back(folder + path + ".index");
  };
  add_prefix(state.value().model_checkpoint_path);
  for (const std::string& path : state.value().all_model_checkpoint_paths) add_prefix(path);
  names_->ask(keys, Need::kContent);
}

}  // namespace cairn::inline v0
