// kvstore_spec.cc -- the specs of the key-value stores below Orbax's arrays: folders and OCDBT
// databases, on disk or in Google Cloud Storage.
//
//   {"driver":"ocdbt",
//    "base":{"driver":"file","path":"/ckpt/","file_io_locking":{"mode":"non_atomic"}},
//    "manifest":{"driver":"file","path":"/ckpt/"},
//    "path":"params.w","cache_pool":"cache_pool#ocdbt"}
//
// Data files are written in place, because no process reads them before the manifest names them.
// The manifest is not.
#include <cairn/handlers/specs/kvstore_spec.h>

#include <cairn/base/base64.h>
#include <cairn/handlers/specs/spec_path.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

namespace cairn::inline v0 {
namespace handlers {
namespace {

constexpr std::int64_t kDataFileSize = std::int64_t{2} << 30U;
constexpr std::int64_t kGcsDataFileSize = 400 << 20;
constexpr const char* kTemporaryPrefix = "ocdbt_tmp_meta/";
constexpr const char* kCachePool = "cache_pool#ocdbt";

Json object(JsonObject members) { return {std::move(members)}; }

Json gcs_spec(std::string_view path) {
  GcsPath parsed = parse_gcs_path(path);
  const char* const chosen = std::getenv("TENSORSTORE_GCS_BACKEND");
  return object({{"driver", chosen ? chosen : "gcs"},
                 {"bucket", std::move(parsed.bucket)},
                 {"path", std::move(parsed.path)}});
}

bool has_driver(const Json& spec, std::string_view driver) {
  const Json* member = spec.find("driver");
  const std::string* text = member ? member->as_string() : nullptr;
  return text && *text == driver;
}

bool is_gcs_base(const Json& base) {
  if (const std::string* url = base.as_string()) return is_gcs_path(*url);
  if (has_driver(base, "gcs") || has_driver(base, "gcs_grpc")) return true;
  const auto is_gcs_layer = [](const Json& layer) {
    const Json* below = layer.find("prefix") ? nullptr : layer.find("base");
    return below && is_gcs_base(*below);
  };
  const Json* layers = has_driver(base, "kvstack") ? base.find("layers") : nullptr;
  if (layers && layers->as_array() && std::ranges::any_of(*layers->as_array(), is_gcs_layer))
    return true;
  const Json* path = base.find("path");
  return path && path->as_string() && is_gcs_path(*path->as_string());
}

// The parts of an OCDBT store's spec that depend on the location of its data.
struct Places {
  Json base;
  std::optional<Json> manifest;
  std::optional<std::string> node_prefix;
  std::optional<std::string> value_prefix;
};

Json ending_in_slash(Json base) {
  const Json* path = base.find("path");
  if (path && !path->as_string()->empty() && path->as_string()->back() != '/')
    base.set("path", *path->as_string() + "/");
  return base;
}

// Keeps nodes and manifest in a folder of their own until they are committed. Values go directly to
// their final place.
void keep_metadata_elsewhere(const KvStoreSpecOptions& options, Places& places) {
  const auto writes_for = [&](OcdbtWriteMode mode) {
    return options.write && options.write->mode == mode;
  };
  if (!options.temporary_metadata) {
    if (!writes_for(OcdbtWriteMode::kCommitTemporary)) return;
    throw Error(Code::kInvalidArgument,
                "to commit temporary OCDBT metadata, give its location in temporary_metadata");
  }
  if (writes_for(OcdbtWriteMode::kMerge))
    throw Error(
        Code::kInvalidArgument,
        "databases cannot be merged into temporary OCDBT metadata; leave temporary_metadata out");
  const std::string url = "file://" + posix_path(*options.temporary_metadata) + "/";
  if (!writes_for(OcdbtWriteMode::kCommitTemporary)) places.manifest = Json(url + kTemporaryPrefix);
  if (writes_for(OcdbtWriteMode::kWrite)) places.node_prefix = kTemporaryPrefix;
  Json layers = JsonArray{object({{"base", ending_in_slash(std::move(places.base))}}),
                          object({{"prefix", kTemporaryPrefix}, {"base", url}})};
  places.base = object({{"driver", "kvstack"}, {"layers", std::move(layers)}});
}

Places ocdbt_places(const KvStoreSpecOptions& options) {
  std::string directory = normalized_directory(options.directory);
  const bool gcs = is_gcs_path(directory);
  if (!gcs && !directory.starts_with('/'))
    throw Error(
        Code::kInvalidArgument,
        "the directory of a checkpoint must be absolute (or gs://), not \"" + directory + "\"");
  if (options.process) directory = joined_path(directory, options.process->folder());
  Places places;
  if (options.write && options.write->store_ocdbt_metadata_and_values_separately) {
    places.node_prefix = "ocdbt_meta/";
    places.value_prefix = "ocdbt_data/";
  }
  if (gcs) {
    places.base = gcs_spec(directory);
  } else {
    places.manifest =
        object({{"driver", kFileDriver}, {"path", file_driver_path(directory + "/")}});
    places.base = *places.manifest;
    places.base.set("file_io_locking", object({{"mode", "non_atomic"}}));
  }
  keep_metadata_elsewhere(options, places);
  return places;
}

void add_write_options(const OcdbtWriteOptions& options, Json& spec) {
  const std::int64_t size = options.target_data_file_size.value_or(default_data_file_size(spec));
  if (size < 0)
    throw Error(Code::kInvalidArgument, "the OCDBT data file size is " + std::to_string(size) +
                                            " bytes; it must not be negative (0: no limit)");
  spec.set("target_data_file_size", size);
  spec.set("config", object({{"max_inline_value_bytes", 1024},
                             {"max_decoded_node_bytes", 100000000},
                             {"manifest_kind", "single"}}));
  spec.set("assume_config", true);
}

bool is_remote(const Json& spec) {
  if (const std::string* url = spec.as_string())
    return url->starts_with("gs://") || url->starts_with("s3://");
  if (!spec.as_object())
    throw Error(Code::kInvalidArgument,
                "a TensorStore spec is an object or a URL, not " + std::string(spec.type_text()));
  for (const char* below : {"base", "kvstore"})
    if (const Json* inner = spec.find(below)) return is_remote(*inner);
  if (has_driver(spec, "kvstack")) {
    const Json* layers = spec.find("layers");
    return layers && layers->as_array() &&
           std::any_of(layers->as_array()->begin(), layers->as_array()->end(), is_remote);
  }
  return has_driver(spec, "gcs") || has_driver(spec, "gcs_grpc") || has_driver(spec, "s3");
}

Json ocdbt_spec(const KvStoreSpecOptions& options) {
  Places places = ocdbt_places(options);
  Json spec = object({{"driver", "ocdbt"}, {"base", std::move(places.base)}});
  if (places.manifest) spec.set("manifest", *std::move(places.manifest));
  if (places.node_prefix) {
    spec.set("btree_node_data_prefix", *places.node_prefix);
    spec.set("version_tree_node_data_prefix", *places.node_prefix);
  }
  if (places.value_prefix) spec.set("value_data_prefix", *places.value_prefix);
  if (options.write) add_write_options(*options.write, spec);
  if (options.name) spec.set("path", *options.name);
  spec.set("cache_pool", kCachePool);
  if (is_remote(spec)) {
    spec.set("experimental_read_coalescing_threshold_bytes", 1000000);
    spec.set("experimental_read_coalescing_merged_bytes", std::int64_t{500000000000});
    spec.set("experimental_read_coalescing_interval", "1ms");
  }
  return spec;
}

void set_limit(const char* resource, std::optional<std::int64_t> limit, Json& context) {
  if (!limit) return;
  if (*limit < 1)
    throw Error(Code::kInvalidArgument, std::string(resource) + ": " + std::to_string(*limit) +
                                            " threads; expected at least 1");
  context.set(resource, object({{"limit", *limit}}));
}

}  // namespace

std::int64_t default_data_file_size(const Json& ocdbt_spec) {
  const Json* base = ocdbt_spec.find("base");
  return base && is_gcs_base(*base) ? kGcsDataFileSize : kDataFileSize;
}

Json kvstore_spec(const KvStoreSpecOptions& options) {
  // throws for a bad process, even if it is not used
  if (options.process) (void)options.process->folder();
  if (options.use_ocdbt) return ocdbt_spec(options);
  std::string path = normalized_directory(options.directory);
  const bool gcs = is_gcs_path(path);
  if (options.name) path = joined_path(path, *options.name);
  return gcs ? gcs_spec(path) : object({{"driver", kFileDriver}, {"path", std::move(path)}});
}

}  // namespace handlers

std::string OcdbtProcessSpec::folder() const {
  const auto legal = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
  };
  if (process_id.empty() || !std::all_of(process_id.begin(), process_id.end(), legal))
    throw Error(Code::kInvalidArgument,
                "OCDBT process id \"" + process_id + "\": expected letters and digits");
  return (use_replica_suffix ? "ocdbt.process_replica_" : "ocdbt.process_") + process_id;
}

OcdbtProcessSpec OcdbtProcessSpec::parse(std::string_view folder) {
  OcdbtProcessSpec spec;
  std::string_view id = folder;
  const auto skip = [&](std::string_view prefix) {
    const bool there = id.starts_with(prefix);
    if (there) id.remove_prefix(prefix.size());
    return there;
  };
  const bool ours = skip("ocdbt.process_");
  spec.use_replica_suffix = ours && skip("replica_");
  spec.process_id = id;
  if (!ours)
    throw Error(
        Code::kInvalidArgument,
        "\"" + std::string(folder) + "\" is not a process folder: expected ocdbt.process_<id>");
  (void)with_context([&] { return "folder \"" + std::string(folder) + "\""; },
                     [&] { return spec.folder(); });
  return spec;
}

std::string build_kvstore_tspec(const KvStoreSpecOptions& options) {
  return to_text(handlers::kvstore_spec(options));
}

bool is_remote_storage(std::string_view spec) {
  const std::size_t start = spec.find_first_not_of(" \t\r\n");
  const bool is_json =
      start != std::string_view::npos && (spec[start] == '{' || spec[start] == '"');
  return handlers::is_remote(is_json ? parse_json(spec) : Json(spec));
}

std::string get_sharding_tensorstore_spec(const std::string& directory,
                                          std::string_view param_name) {
  Json store =
      handlers::kvstore_spec({.directory = directory, .name = "_sharding", .use_ocdbt = false});
  return to_text(handlers::object(
      {{"driver", "json"},
       {"kvstore", std::move(store)},
       {"json_pointer", "/" + encode_base64(as_bytes(param_name), Base64::kUrlSafe)}}));
}

std::string get_ts_context(const TsContextOptions& options) {
  Json context;
  handlers::set_limit("data_copy_concurrency", options.data_copy_concurrency_limit, context);
  handlers::set_limit("file_io_concurrency", options.file_io_concurrency_limit.value_or(128),
                      context);
  if (options.use_ocdbt)
    context.set(handlers::kCachePool, handlers::object({{"total_bytes_limit", 100000000}}));
  return to_text(context);
}

}  // namespace cairn::inline v0
