#include <cairn/kvstore/object/object_store.h>

#include <cairn/kvstore/object/request/url.h>

#include <limits>
#include <memory>
#include <utility>

namespace cairn::inline v0::object {

std::optional<SharedBytes> ObjectStore::map(std::string_view key) const {
  auto bytes = read(key, {});
  if (!bytes) return std::nullopt;
  const auto owner = std::make_shared<const Bytes>(*std::move(bytes));
  return SharedBytes{owner, *owner};
}

std::optional<Location> ObjectStore::locate(std::string_view key) const {
  check_object_key(key);
  return std::nullopt;
}

std::vector<ListEntry> ObjectStore::list(std::string_view prefix) const {
  StoreListing listing = list_values(prefix, std::numeric_limits<std::size_t>::max());
  std::vector<ListEntry> entries;
  entries.reserve(listing.values.size());
  for (StoredValue& value : listing.values)
    entries.push_back({.key = std::move(value.key), .size = value.size});
  return entries;
}

}  // namespace cairn::inline v0::object
