// union.cc -- presents several stores as one store.
#include <cairn/kvstore/union.h>

#include <cairn/kvstore/routing_store.h>

#include <map>
#include <utility>

namespace cairn::inline v0 {
namespace {

class UnionStore : public RoutingStore {
 public:
  explicit UnionStore(std::vector<StorePtr> parts)
      : RoutingStore("an unmerged checkpoint is read-only"), parts_(std::move(parts)) {
    for (const auto& part : parts_)
      for (auto& entry : part->list(""))
        keys_.insert_or_assign(std::move(entry.key), Value{part.get(), entry.size});
  }

  std::optional<std::uint64_t> size(std::string_view key) const override {
    const auto it = keys_.find(key);
    return it == keys_.end() ? std::nullopt : std::optional(it->second.size);
  }
  std::vector<ListEntry> list(std::string_view prefix) const override {
    std::vector<ListEntry> entries;
    for (auto it = keys_.lower_bound(prefix); it != keys_.end() && it->first.starts_with(prefix);
         ++it)
      entries.push_back({it->first, it->second.size});
    return entries;
  }
  std::string describe(std::string_view key) const override {
    const Target found = find(key);
    if (found.store != nullptr) return found.store->describe(key);
    return parts_.empty() ? std::string(key) : parts_.front()->describe(key);
  }

 protected:
  [[nodiscard]] Target find(std::string_view key) const override {
    const auto it = keys_.find(key);
    if (it == keys_.end()) return {};
    return {it->second.part, it->first};
  }

 private:
  struct Value {
    KvStore* part = nullptr;
    std::uint64_t size = 0;
  };

  std::vector<StorePtr> parts_;
  std::map<std::string, Value, std::less<>> keys_;
};

}  // namespace

StorePtr union_store(std::vector<StorePtr> parts) {
  return std::make_shared<UnionStore>(std::move(parts));
}

}  // namespace cairn::inline v0
