// object_store.h -- ObjectStore, what the stores on servers have in common.
#pragma once

#include <cairn/storage/kvstore.h>

#include <optional>
#include <string_view>
#include <vector>

namespace cairn::inline v0::object {

// The functions that follow from others: no value has a place in a local file.
class ObjectStore : public KvStore {
 public:
  std::optional<SharedBytes> map(std::string_view key) const final;
  std::optional<Location> locate(std::string_view key) const final;
  std::vector<ListEntry> list(std::string_view prefix) const final;
};

}  // namespace cairn::inline v0::object
