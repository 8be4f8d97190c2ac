// describe.cc -- builds the CheckpointInfo of an open checkpoint.
#include <cairn/orbax/read/describe.h>

#include <cairn/base/json/json.h>
#include <cairn/base/text/time_text.h>
#include <cairn/io/file.h>
#include <cairn/ocdbt/read/versions.h>
#include <cairn/orbax/layout/metadata.h>
#include <cairn/orbax/sharding.h>
#include <cairn/zarr/metadata/chunk_grid.h>
#include <fmt/format.h>

#include <algorithm>
#include <map>

namespace cairn::inline v0::orbax {
namespace {

// the maximum size of a JSON item that is shown
constexpr std::uint64_t kMaxShownFile = std::uint64_t{64} << 10U;
constexpr std::uint64_t kMaxRootMetadata = std::uint64_t{1} << 30U;
constexpr std::size_t kMaxNamesShown = 8;

using Facts = std::vector<std::pair<std::string, std::string>>;

std::string join_names(const std::vector<std::string>& names) {
  std::string text;
  for (std::size_t i = 0; i < names.size() && i < kMaxNamesShown; ++i)
    text += (i == 0 ? "" : ", ") + names[i];
  return names.size() > kMaxNamesShown ? fmt::format("{}, ... ({} in all)", text, names.size())
                                       : text;
}

bool is_something(const Json& json) {
  if (const auto* members = json.as_object()) return !members->empty();
  return !json.is_null();
}

// ---- the layout ----

std::string version_words(const PytreeItem& item) {
  int format = item.zarr_format;
  const auto any = std::find_if(item.stored.begin(), item.stored.end(),
                                [](const auto& array) { return array.has_value(); });
  if (any != item.stored.end()) format = (*any)->metadata().zarr_format;
  return format == 0 ? "" : fmt::format("Zarr v{}", format);
}

std::string storage_words(const PytreeItem& item) {
  switch (item.storage) {
    case ArrayStorage::kFolders:
      return "one folder per array";
    case ArrayStorage::kOcdbt:
      return "OCDBT";
    case ArrayStorage::kUnmerged:
      return fmt::format("{} unmerged OCDBT database{}", item.process_folders.size(),
                         item.process_folders.size() == 1 ? "" : "s");
  }
  return "";
}

std::string structure_words(const PytreeItem& item) {
  switch (item.structure) {
    case Structure::kTreeMetadata:
      return "";
    case Structure::kAggregate:
      return item.array_folders.empty() ? "structure from the legacy msgpack file"
                                        : "structure from the msgpack file of T5X";
    case Structure::kNames:
      return item.storage == ArrayStorage::kFolders
                 ? "no _METADATA: names from the folders, types unknown"
                 : "no _METADATA: names from the database's keys, types unknown";
  }
  return "";
}

// A database in which nothing is an array belongs to another program.
bool is_plain_database(const PytreeItem& item) {
  return item.storage == ArrayStorage::kOcdbt && item.structure == Structure::kNames &&
         item.stored.empty() && item.broken.empty();
}

std::string item_words(const PytreeItem& item) {
  if (is_plain_database(item)) return "OCDBT key-value store without arrays";
  std::string text = storage_words(item);
  for (const auto& more : {version_words(item), structure_words(item)})
    if (!more.empty()) text += ", " + more;
  return text;
}

std::string layout_words(const Layout& layout, std::span<const PytreeItem> opened) {
  std::string text = layout.step ? fmt::format("step {} of a root of {} step{}, ", *layout.step,
                                               layout.step_count, layout.step_count == 1 ? "" : "s")
                                 : "";
  if (!layout.uncommitted.empty()) text = "UNCOMMITTED (" + layout.uncommitted + "), " + text;
  if (layout.kind == LayoutKind::kComposite) {
    text += layout.v1 ? "checkpointables" : "composite";
    std::vector<std::string> names;
    for (const auto& item : opened) names.push_back(fmt::format("'{}'", item.item.name));
    text += names.empty() ? " without a pytree item"
                          : (names.size() == 1 ? ", item " : ", items ") + join_names(names);
  } else {
    text += layout.kind == LayoutKind::kZarr ? "Zarr arrays outside a checkpoint" : "direct";
  }
  std::vector<std::string> words;
  for (const auto& item : opened)
    if (std::find(words.begin(), words.end(), item_words(item)) == words.end())
      words.push_back(item_words(item));
  for (const auto& each : words) text += ", " + each;
  return text;
}

// ---- the checkpoint ----

// Names the later steps that are not complete. Warns of those that are damaged: an unfinished save
// is nothing unusual.
void add_passed_steps(const Layout& layout, CheckpointInfo& info) {
  std::vector<std::string> names;
  for (const PassedStep& step : layout.passed_over) {
    names.push_back(step.folder);
    if (step.lacks_files)
      info.warnings.push_back("the later step " + join(layout.root, step.folder) +
                              " is not complete, so it was not opened: " + step.why);
  }
  if (!names.empty())
    info.facts.emplace_back("newer steps that are not complete", join_names(names));
}

void add_checkpoint_metadata(const Layout& layout, CheckpointInfo& info) {
  // Orbax also treats unreadable metadata as absent.
  if (layout.metadata_error)
    info.facts.emplace_back("checkpoint metadata",
                            "unreadable: " + layout.metadata_error->message());
  if (!layout.metadata) return;
  const CheckpointMetadata& metadata = *layout.metadata;
  if (metadata.init_time_ns) info.facts.emplace_back("started", time_text(*metadata.init_time_ns));
  if (metadata.commit_time_ns)
    info.facts.emplace_back("committed", time_text(*metadata.commit_time_ns));
  for (const auto& [item, handler] : metadata.item_handlers)
    info.facts.emplace_back(item.empty() ? "handler" : "handler of " + item, handler);
  if (is_something(metadata.metrics)) info.facts.emplace_back("metrics", to_text(metadata.metrics));
  if (is_something(metadata.custom_metadata))
    info.custom_metadata = to_text(metadata.custom_metadata);
}

// Fills `missing`, and its texts into `warnings`. A tree without the file that lists its leaves may
// also come from a version that did not record the tree; then it is only a warning.
void add_missing(const Layout& layout, std::span<const PytreeItem> opened,
                 const OpenOptions& options, CheckpointInfo& info) {
  for (const LostPart& part : layout.lost)
    if (!options.item || *options.item == part.item)
      info.missing.push_back({part.item, part.path, part.record, lost_text(part)});
  for (const PytreeItem& item : opened) {
    if (!item.lacks_structure) continue;
    const std::string file = join(item.item.path, kTreeMetadataFile);
    std::string text = file +
                       " is missing: only the arrays are known, by their keys; the tree may have "
                       "had strings, None, empty containers and lists";
    const auto known = std::ranges::find(info.missing, file, &MissingPart::path);
    if (known == info.missing.end())
      info.warnings.push_back(std::move(text));
    else if (!item.tensors.empty())
      known->text = std::move(text);
  }
  for (const MissingPart& part : info.missing) info.warnings.push_back(part.text);
  info.allow_missing = options.allow_missing;
}

void add_root_metadata(const Layout& layout, Facts& facts) {
  const std::string file = layout.root.empty() ? "" : root_metadata_file(*layout.root_folder);
  if (file.empty()) return;
  const auto custom = try_call([&] {
    return parse_root_metadata(as_text(layout.root_folder->read_text(file, kMaxRootMetadata)));
  });
  if (!custom || is_something(custom.value()))
    facts.emplace_back("root metadata", custom ? to_text(custom.value())
                                               : "unreadable: " + custom.error().message());
}

// Describes a JSON item: `metadata`, `data.json`, or a file with the name of the item.
void add_other_item(const Item& item, Facts& facts) {
  const Listing listing = list_directory(item.folder, item.path);
  bool shown = false;
  for (const auto& name : listing.files) {
    if (name == kCommitFile) continue;
    const std::string file = join(item.path, name);
    const auto json = try_call(
        [&] { return to_text(parse_json(as_text(item.folder->read_text(file, kMaxShownFile)))); });
    const std::string label =
        "item " + item.name +
        (name == "metadata" || name == "data.json" || name == item.name ? "" : "/" + name);
    if (json)
      facts.emplace_back(label, json.value());
    else
      facts.emplace_back(label, name.ends_with(".pbtxt") ? "protocol buffer text"
                                                         : "not shown: " + json.error().message());
    shown = true;
  }
  if (!shown)
    facts.emplace_back(
        "item " + item.name,
        listing.folders.empty() ? "empty" : "not a pytree; folders " + join_names(listing.folders));
}

// ---- one pytree ----

void add_random_keys(const PytreeItem& item, const std::string& prefix, Facts& facts) {
  if (!item.array_metadata_files.empty())
    facts.emplace_back(prefix + "array metadata", join_names(item.array_metadata_files));
  for (const auto& [name, why] : item.unread_array_metadata)
    facts.emplace_back(prefix + "array metadata " + name, "unreadable: " + why);
  for (const auto& [name, impl] : item.random_keys)
    facts.emplace_back(fmt::format("{}PRNG key '{}'", prefix, name), impl);
}

void add_database(const PytreeItem& item, const std::string& prefix, Facts& facts) {
  if (item.storage != ArrayStorage::kOcdbt) return;
  const auto database = try_call([&] { return ocdbt::read_database_info(*item.files); });
  if (!database || !database.value()) return;
  const auto& config = database.value()->manifest.config;
  const auto opened =
      try_call([&] { return ocdbt::find_version(*item.files, *database.value(), item.version); });
  if (opened && opened.value()) {
    const auto& version = opened.value()->version;
    facts.emplace_back(prefix + "OCDBT generation",
                       fmt::format("{}, committed {}, {} keys", version.generation,
                                   time_text(static_cast<std::int64_t>(version.commit_time_ns)),
                                   version.statistics.num_keys));
    const auto& versions = database.value()->manifest.versions;
    facts.emplace_back(prefix + "OCDBT versions",
                       fmt::format("{} in the manifest, {} older version nodes", versions.size(),
                                   database.value()->manifest.version_nodes.size()));
  }
  facts.emplace_back(
      prefix + "OCDBT config",
      fmt::format(
          "{} manifest, values up to {} bytes inline, nodes up to {} bytes, {}",
          database.value()->kind == ocdbt::ManifestKind::kSingle ? "single" : "numbered",
          config.max_inline_value_bytes, config.max_decoded_node_bytes,
          config.zstd_level ? fmt::format("zstd level {}", *config.zstd_level) : "uncompressed"));
}

std::string count_words(const PytreeItem& item) {
  std::size_t arrays = 0, strings = 0, placeholders = 0, empty = 0, custom = 0, broken = 0;
  for (const auto& tensor : item.tensors) {
    ++(tensor.is_array()                 ? arrays
       : tensor.is_custom()              ? custom
       : tensor.typestr == "string"      ? strings
       : tensor.typestr == "placeholder" ? placeholders
                                         : empty);
    broken += tensor.error.empty() || tensor.is_custom() ? 0 : 1;
  }
  std::string text = fmt::format("{} arrays", arrays);
  if (strings > 0) text += fmt::format(", {} strings", strings);
  if (empty > 0) text += fmt::format(", {} empty nodes", empty);
  if (placeholders > 0) text += fmt::format(", {} placeholders", placeholders);
  if (custom > 0) text += fmt::format(", {} of custom types", custom);
  if (broken > 0) text += fmt::format("; {} of them UNREADABLE", broken);
  return text;
}

// Returns whether the chunks hold the elements as they are, with a CRC-32C each.
bool has_only_crc32c(const zarr::CodecChain& chain) {
  return chain.shard ? has_only_crc32c(chain.shard->codecs) : zarr::is_only_crc32c(chain.steps);
}

// Returns how many arrays take fewer bytes than their elements, and how many have the codec crc32c
// alone. A frame of raw blocks takes more bytes than the elements.
std::string compression_words(const PytreeItem& item) {
  std::uint64_t arrays = 0, compressed = 0, from = 0, to = 0, checked = 0;
  for (std::size_t i = 0; i < item.tensors.size(); ++i) {
    if (!item.stored[i] || !item.tensors[i].is_array()) continue;
    const zarr::ArrayMetadata& metadata = item.stored[i]->metadata();
    const auto chunks = static_cast<std::uint64_t>(
        element_count(zarr::grid_shape(metadata.shape, metadata.read_chunk_shape())));
    const std::uint64_t whole =
        chunks * static_cast<std::uint64_t>(element_count(metadata.read_chunk_shape())) *
        metadata.element_size;
    if (whole == 0) continue;
    ++arrays;
    if (has_only_crc32c(metadata.codecs)) ++checked;
    if (item.tensors[i].stored_nbytes >= whole) continue;
    ++compressed;
    from += whole;
    to += item.tensors[i].stored_nbytes;
  }
  if (arrays == 0) return "";
  const std::string raw = checked == 0 ? "" : fmt::format("; {} stored raw with crc32c", checked);
  if (compressed == 0) return "no arrays" + raw;
  return fmt::format("{} of {} arrays, from {} to {} bytes{}", compressed, arrays, from, to, raw);
}

// Returns a text like "recorded for 12 arrays: 8 NamedSharding(x=4,y=2; P('x')), 4
// SingleDeviceSharding(cpu:0)", with the most common sharding first.
std::string sharding_words(const PytreeItem& item) {
  // As stored: thousands of arrays share a few shardings.
  std::map<std::string_view, std::size_t> texts;
  std::size_t arrays = 0;
  for (const auto& tensor : item.tensors) {
    if (tensor.sharding.empty()) continue;
    ++texts[tensor.sharding];
    ++arrays;
  }
  if (arrays == 0) return "";
  // Meshes may differ only in the order of their devices.
  std::map<std::string, std::size_t> shardings;
  for (const auto& text : texts) {
    const auto sharding = try_call([&] { return parse_sharding(text.first); });
    shardings[sharding ? sharding_text(sharding.value()) : "unreadable"] += text.second;
  }
  std::vector<std::pair<std::string, std::size_t>> sorted(shardings.begin(), shardings.end());
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  std::vector<std::string> kinds;
  kinds.reserve(sorted.size());
  for (const auto& [words, count] : sorted) kinds.push_back(fmt::format("{} {}", count, words));
  return fmt::format("recorded for {} array{}: {}", arrays, arrays == 1 ? "" : "s",
                     join_names(kinds));
}

void add_item(const PytreeItem& item, const std::string& prefix, CheckpointInfo& info) {
  Facts& facts = info.facts;
  if (!item.item.note.empty()) facts.emplace_back(prefix + "item", item.item.note);
  facts.emplace_back(prefix + "leaves", count_words(item));
  facts.emplace_back(
      prefix + "arrays",
      storage_words(item) + (version_words(item).empty() ? "" : ", " + version_words(item)));
  if (const std::string words = compression_words(item); !words.empty())
    facts.emplace_back(prefix + "compressed", words);
  for (const auto& [key, names] : item.custom_keys)
    facts.emplace_back(prefix + "array metadata key",
                       fmt::format("'{}' instead of .zarray, of {} array{}", key, names.size(),
                                   names.size() == 1 ? "" : "s"));
  if (!item.strings_file.empty())
    facts.emplace_back(prefix + "file of strings",
                       fmt::format("'{}' instead of {}", item.strings_file, kStringsFile));
  if (!structure_words(item).empty())
    facts.emplace_back(prefix + "structure", structure_words(item));
  if (item.structure == Structure::kTreeMetadata) {
    facts.emplace_back(prefix + "use_ocdbt", item.metadata.use_ocdbt
                                                 ? (*item.metadata.use_ocdbt ? "true" : "false")
                                                 : "not recorded");
    facts.emplace_back(prefix + "use_zarr3", item.metadata.use_zarr3 ? "true" : "false");
    if (!item.metadata.rich_types.empty())
      facts.emplace_back(prefix + "rich types", "recorded (value_metadata_tree)");
  }
  facts.emplace_back(prefix + "missing chunks", item.missing == zarr::MissingChunk::kError
                                                    ? "are errors"
                                                    : "read as the fill value");
  if (!item.process_folders.empty())
    facts.emplace_back(prefix + "written by", join_names(item.process_folders));
  add_database(item, prefix, facts);
  if (is_plain_database(item)) {
    std::vector<std::string> keys;
    for (const auto& entry : item.keys) keys.push_back(entry.key);
    facts.emplace_back(prefix + "keys", keys.empty() ? "none" : join_names(keys));
  }
  if (const std::string words = sharding_words(item); !words.empty())
    facts.emplace_back(prefix + "shardings", words);
  add_random_keys(item, prefix, facts);
  for (const BrokenFile& broken : item.broken)
    facts.emplace_back(prefix + "UNREADABLE", broken.file + ": " + broken.why);
  if (item.metadata.custom_metadata.empty()) return;
  const auto custom = try_call([&] { return parse_json(item.metadata.custom_metadata); });
  info.item_metadata.emplace_back(item.item.name,
                                  custom ? to_text(custom.value()) : item.metadata.custom_metadata);
}

}  // namespace

CheckpointInfo describe_checkpoint(const Layout& layout, std::span<const PytreeItem> opened,
                                   const OpenOptions& options) {
  CheckpointInfo info;
  info.format = layout.kind == LayoutKind::kZarr ? "zarr" : "orbax";
  info.layout = layout_words(layout, opened);
  info.path = layout.path;
  info.step = layout.step;
  if (layout.kind == LayoutKind::kComposite)
    for (const auto& item : layout.items) info.items.push_back(item.name);
  if (layout.kind != LayoutKind::kZarr)
    info.facts.emplace_back("API version", layout.v1 ? "1" : "0");
  if (!layout.root.empty()) info.facts.emplace_back("root", layout.root);
  add_passed_steps(layout, info);
  if (!layout.uncommitted.empty()) info.facts.emplace_back("uncommitted", layout.uncommitted);
  add_missing(layout, opened, options, info);
  add_checkpoint_metadata(layout, info);
  add_root_metadata(layout, info.facts);
  for (const auto& item : opened)
    add_item(item, opened.size() > 1 ? item.item.name + ": " : "", info);
  for (const auto& item : layout.items)
    if (item.kind == ItemKind::kOther) add_other_item(item, info.facts);
  return info;
}

}  // namespace cairn::inline v0::orbax
