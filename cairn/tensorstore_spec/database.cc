// database.cc -- the driver ocdbt: a database in a base store, with its manifest in that store or
// in another one.
#include <cairn/ocdbt/format/manifest.h>
#include <cairn/ocdbt/read/versions.h>
#include <cairn/tensorstore_spec/members.h>
#include <cairn/tensorstore_spec/routed_store.h>
#include <cairn/tensorstore_spec/store_location.h>

#include <charconv>
#include <utility>

namespace cairn::inline v0::tensorstore_spec {
namespace {

StoreLocation parse_base(const Json& spec, const std::string& pointer, const Scope& scope) {
  StoreLocation location = parse_store_location(spec, pointer, scope);
  if (location.database)
    refuse(pointer, "Cairn does not support a database inside a database", Code::kUnimplemented);
  return location;
}

StorePtr open_base(const StoreLocation& location) {
  return location.below(folder_prefix(location.path));
}

StorePtr parse_bases(Members& members, const Scope& scope) {
  const StoreLocation place = parse_base(members.require("base"), members.pointer("base"), scope);
  StorePtr base = open_base(place);
  const Json* other = members.take("manifest");
  if (!other) return base;
  const StoreLocation other_place = parse_base(*other, members.pointer("manifest"), scope);
  StorePtr manifest = open_base(other_place);
  // Other stores of one name can be different stores: buckets of two servers, for example.
  if (place.is_files && other_place.is_files &&
      manifest->describe(ocdbt::kManifestKey) == base->describe(ocdbt::kManifestKey))
    return base;
  return route_manifest(std::move(base), std::move(manifest));
}

void parse_uuid(const std::string& text, const std::string& pointer, ocdbt::Config& config) {
  bool good = text.size() == 2 * config.uuid.size();
  for (std::size_t i = 0; good && i < config.uuid.size(); ++i) {
    const char* const end = text.data() + 2 * i + 2;
    good = std::from_chars(text.data() + 2 * i, end, config.uuid[i], 16).ptr == end;
  }
  if (!good) refuse(pointer, "expected 32 hexadecimal digits, not \"" + text + "\"");
}

void parse_compression(const Json& value, const std::string& pointer, ocdbt::Config& config) {
  config.zstd_level = std::nullopt;
  if (value.is_null()) return;
  Members members(value, pointer);
  if (members.text("id") != "zstd") refuse(members.pointer("id"), "expected \"zstd\"");
  config.zstd_level = static_cast<std::int32_t>(members.integer("level", -131072, 22).value_or(0));
  members.finish();
}

ocdbt::Config parse_config(const Json& value, const std::string& pointer) {
  ocdbt::Config config;
  Members members(value, pointer);
  if (const auto uuid = members.text("uuid")) parse_uuid(*uuid, members.pointer("uuid"), config);
  if (const auto kind = members.text("manifest_kind")) {
    if (*kind != "single" && *kind != "numbered")
      refuse(members.pointer("manifest_kind"), "expected \"single\" or \"numbered\"");
    config.manifest_kind =
        *kind == "numbered" ? ocdbt::ManifestKind::kNumbered : ocdbt::ManifestKind::kSingle;
  }
  if (const auto n = members.integer("max_inline_value_bytes", 0, 1 << 20))
    config.max_inline_value_bytes = static_cast<std::uint32_t>(*n);
  if (const auto n =
          members.integer("max_decoded_node_bytes", 0, std::numeric_limits<std::int32_t>::max()))
    config.max_decoded_node_bytes = static_cast<std::uint32_t>(*n);
  if (const auto n = members.integer("version_tree_arity_log2", 1, 16))
    config.version_tree_arity_log2 = static_cast<std::uint8_t>(*n);
  if (const Json* compression = members.take("compression"))
    parse_compression(*compression, members.pointer("compression"), config);
  members.finish();
  return config;
}

// Throws failed_precondition unless the configuration members in the spec match the database.
// Members that the spec omits may have any value.
void check_config(const KvStore& base, const Json& asked, const std::string& pointer) {
  const auto info = ocdbt::read_database_info(base);
  if (!info) return;
  const ocdbt::Config& actual = info->manifest.config;
  const ocdbt::Config wanted = parse_config(asked, pointer);
  const auto check = [&](const char* member, bool same) {
    if (asked.find(member) && !same)
      refuse(pointer + "/" + member,
             "the database at " + base.describe(ocdbt::kManifestKey) + " has a different one",
             Code::kFailedPrecondition);
  };
  check("uuid", wanted.uuid == actual.uuid);
  check("manifest_kind", wanted.manifest_kind == info->kind);
  check("max_inline_value_bytes", wanted.max_inline_value_bytes == actual.max_inline_value_bytes);
  check("max_decoded_node_bytes", wanted.max_decoded_node_bytes == actual.max_decoded_node_bytes);
  check("version_tree_arity_log2",
        wanted.version_tree_arity_log2 == actual.version_tree_arity_log2);
  check("compression", wanted.zstd_level == actual.zstd_level);
}

OcdbtVersion parse_version(Members& members) {
  OcdbtVersion version;
  const Json* value = members.take("version");
  if (!value) return version;
  if (value->as_string())
    refuse(members.pointer("version"), "Cairn accepts a generation number here, not a commit time",
           Code::kUnimplemented);
  version.generation = static_cast<std::uint64_t>(*members.integer("version", 1));
  return version;
}

ocdbt::WriterOptions parse_writer_options(Members& members) {
  ocdbt::WriterOptions options;
  options.config.emplace();
  if (const Json* config = members.take("config"))
    options.config = parse_config(*config, members.pointer("config"));
  if (const auto prefix = members.text("value_data_prefix")) options.value_prefix = *prefix;
  if (const auto prefix = members.text("btree_node_data_prefix")) options.btree_prefix = *prefix;
  if (const auto prefix = members.text("version_tree_node_data_prefix"))
    options.version_prefix = *prefix;
  if (const auto size = members.integer("target_data_file_size", 0))
    options.target_data_file_size = static_cast<std::uint64_t>(*size);
  return options;
}

}  // namespace

ocdbt::WriterOptions commit_options(const Database& database) {
  ocdbt::WriterOptions options = database.options;
  if (database.base->size(ocdbt::kManifestKey)) options.config.reset();
  return options;
}

void check_no_version(const Database& database) {
  if (database.version.generation || database.version.commit_time_ns)
    throw Error(Code::kInvalidArgument,
                "the spec names a version of the database, and versions cannot change: leave "
                "\"version\" out to write");
}

StoreLocation parse_database(Members& members, const Scope& outer) {
  Database database;
  database.base = parse_bases(members, outer.inside(members));
  database.version = parse_version(members);
  database.options = parse_writer_options(members);
  StoreLocation location;
  location.path = members.text("path").value_or("");
  (void)members.flag("assume_config");
  (void)members.integer("experimental_read_coalescing_threshold_bytes", 0);
  (void)members.integer("experimental_read_coalescing_merged_bytes", 0);
  (void)members.text("experimental_read_coalescing_interval");
  members.pass_over_resources({"cache_pool", "data_copy_concurrency"});
  members.reject_unsupported({"coordinator"});
  members.finish();
  if (const Json* config = members.take("config"))
    check_config(*database.base, *config, members.pointer("config"));
  location.database = std::make_shared<const Database>(std::move(database));
  location.below = [database = location.database](const std::string& prefix) {
    StorePtr store = open_ocdbt(database->base, database->version);
    return prefix.empty() ? store : prefix_store(std::move(store), prefix);
  };
  return location;
}

}  // namespace cairn::inline v0::tensorstore_spec
