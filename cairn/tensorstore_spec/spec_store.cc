// spec_store.cc -- opens the key-value store of a spec, and transactions on it.
#include <cairn/base/text.h>
#include <cairn/ocdbt/write/transaction.h>
#include <cairn/tensorstore_spec/live_database.h>
#include <cairn/tensorstore_spec/members.h>
#include <cairn/tensorstore_spec/store_location.h>

#include <utility>

namespace cairn::inline v0 {
namespace {

using tensorstore_spec::StoreLocation;

// A spec is JSON, or a URL as it is.
StoreLocation parse_kv_spec(std::string_view spec, const SpecContext& context) {
  const std::size_t start = spec.find_first_not_of(" \t\r\n");
  const bool is_json =
      start != std::string_view::npos && (spec[start] == '{' || spec[start] == '"');
  return tensorstore_spec::parse_store_location(
      is_json ? tensorstore_spec::parse_spec(spec) : Json(spec), "",
      tensorstore_spec::Scope(context));
}

bool has_version(const tensorstore_spec::Database& database) {
  return database.version.generation || database.version.commit_time_ns;
}

}  // namespace

StorePtr open_kv_store(std::string_view spec, const SpecContext& context) {
  StoreLocation location = parse_kv_spec(spec, context);
  if (location.database && !has_version(*location.database)) {
    StorePtr live = tensorstore_spec::open_live_database(location.database);
    (void)live->size("?");  // a damaged database is refused here, not at its first use
    return location.path.empty() ? live : prefix_store(std::move(live), std::move(location.path));
  }
  // A path is a prefix of the keys. Only the part up to its last "/" can be a folder.
  StorePtr store = location.below(std::string(folder_prefix(location.path)));
  std::string prefix(name_of(location.path));
  return prefix.empty() ? store : prefix_store(std::move(store), std::move(prefix));
}

OcdbtTransaction open_kv_transaction(std::string_view spec, const SpecContext& context) {
  const StoreLocation location = parse_kv_spec(spec, context);
  if (!location.database)
    throw Error(Code::kUnimplemented,
                "spec: a transaction needs a store with the driver ocdbt; a folder or memory "
                "changes key by key, as open_kv_store does");
  const tensorstore_spec::Database& database = *location.database;
  tensorstore_spec::check_no_version(database);
  return OcdbtTransaction(std::make_unique<OcdbtTransaction::State>(
      database.base, tensorstore_spec::commit_options(database), location.path));
}

}  // namespace cairn::inline v0
