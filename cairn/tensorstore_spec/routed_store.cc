// routed_store.cc -- a database whose manifest is in a different store from its data files.
#include <cairn/tensorstore_spec/routed_store.h>

#include <cairn/kvstore/routing_store.h>
#include <cairn/ocdbt/format/manifest.h>

#include <algorithm>
#include <utility>

namespace cairn::inline v0::tensorstore_spec {
namespace {

class RoutedStore : public RoutingStore {
 public:
  RoutedStore(StorePtr base, StorePtr manifest)
      : base_(std::move(base)), manifest_(std::move(manifest)) {}

  std::vector<ListEntry> list(std::string_view prefix) const override {
    std::vector<ListEntry> entries = base_->list(prefix);
    std::erase_if(entries, [](const ListEntry& entry) { return is_manifest(entry.key); });
    for (ListEntry& entry : manifest_->list(prefix))
      if (is_manifest(entry.key)) entries.push_back(std::move(entry));
    std::sort(entries.begin(), entries.end(),
              [](const ListEntry& a, const ListEntry& b) { return a.key < b.key; });
    return entries;
  }

 protected:
  [[nodiscard]] Target find(std::string_view key) const override {
    return {(is_manifest(key) ? manifest_ : base_).get(), std::string(key)};
  }

 private:
  static bool is_manifest(std::string_view key) {
    return key == ocdbt::kManifestKey || ocdbt::numbered_manifest_generation(key).has_value();
  }

  StorePtr base_;
  StorePtr manifest_;
};

}  // namespace

StorePtr route_manifest(StorePtr base, StorePtr manifest) {
  return std::make_shared<RoutedStore>(std::move(base), std::move(manifest));
}

}  // namespace cairn::inline v0::tensorstore_spec
