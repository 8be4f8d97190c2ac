// union.cc -- presents several stores as one store.

#include <cairn/kvstore/union.h>

#include <algorithm>
#include <map>

namespace cairn::inline v0 {
namespace {

class UnionStore : public KvStore {
 public:
  explicit UnionStore(std::vector<StorePtr> parts) : parts_(std::move(parts)) {
    for (const auto& part : parts_)
      for (auto& entry : part->list(""))
        keys_.insert_or_assign(std::move(entry.key), Value{part.get(), entry.size});
  }

  std::optional<Bytes> read(std::string_view key, ByteRange range) const override {
    const KvStore* part = find(key);
    return part == nullptr ? std::nullopt : part->read(key, range);
  }
  std::optional<Bytes> read_at_most(std::string_view key, std::uint64_t most) const override {
    const KvStore* part = find(key);
    return part == nullptr ? std::nullopt : part->read_at_most(key, most);
  }
  bool read_into(std::string_view key, std::uint64_t offset, MutableByteView out) const override {
    const KvStore* part = find(key);
    return part != nullptr && part->read_into(key, offset, out);
  }
  std::optional<SharedBytes> map(std::string_view key) const override {
    const KvStore* part = find(key);
    return part == nullptr ? std::nullopt : part->map(key);
  }
  std::optional<std::uint64_t> size(std::string_view key) const override {
    const auto it = keys_.find(key);
    return it == keys_.end() ? std::nullopt : std::optional(it->second.size);
  }
  std::optional<Location> locate(std::string_view key) const override {
    const KvStore* part = find(key);
    return part == nullptr ? std::nullopt : part->locate(key);
  }
  std::vector<ListEntry> list(std::string_view prefix) const override {
    std::vector<ListEntry> entries;
    for (auto it = keys_.lower_bound(prefix); it != keys_.end() && it->first.starts_with(prefix);
         ++it)
      entries.push_back({it->first, it->second.size});
    return entries;
  }
  void write(std::string_view key, ByteView) override { refuse(key); }
  void remove(std::string_view key) override { refuse(key); }
  std::string describe(std::string_view key) const override {
    const KvStore* part = find(key);
    if (part != nullptr) return part->describe(key);
    return parts_.empty() ? std::string(key) : parts_.front()->describe(key);
  }

 private:
  struct Value {
    const KvStore* part = nullptr;
    std::uint64_t size = 0;
  };

  const KvStore* find(std::string_view key) const {
    const auto it = keys_.find(key);
    return it == keys_.end() ? nullptr : it->second.part;
  }
  [[noreturn]] void refuse(std::string_view key) const {
    throw Error(Code::kUnimplemented, describe(key) + ": an unmerged checkpoint is read-only");
  }

  std::vector<StorePtr> parts_;
  std::map<std::string, Value, std::less<>> keys_;
};

}  // namespace

StorePtr union_store(std::vector<StorePtr> parts) {
  return std::make_shared<UnionStore>(std::move(parts));
}

}  // namespace cairn::inline v0
