// memory.cc -- a store in memory: the reference implementation of the contract.
#include <cairn/kvstore/range.h>
#include <cairn/storage/kvstore.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <shared_mutex>

namespace cairn::inline v0 {
namespace {

class MemoryStore : public KvStore {
 public:
  std::optional<Bytes> read(std::string_view key, ByteRange range) const override {
    const auto value = find(key);
    if (!value) return std::nullopt;
    const std::uint64_t length = with_context([&] { return describe(key); },
                                              [&] { return length_in(range, value->size()); });
    const auto first = value->begin() + static_cast<std::ptrdiff_t>(range.offset);
    return Bytes(first, first + static_cast<std::ptrdiff_t>(length));
  }
  std::optional<Bytes> read_at_most(std::string_view key, std::uint64_t most) const override {
    const auto value = find(key);
    if (!value) return std::nullopt;
    with_context([&] { return describe(key); }, [&] { check_at_most(value->size(), most); });
    return *value;
  }
  bool read_into(std::string_view key, std::uint64_t offset, MutableByteView out) const override {
    const auto value = find(key);
    if (!value) return false;
    with_context([&] { return describe(key); },
                 [&] {
                   return length_in({offset, out.size()}, value->size());
                 });
    std::copy_n(value->begin() + static_cast<std::ptrdiff_t>(offset), out.size(), out.begin());
    return true;
  }
  std::optional<SharedBytes> map(std::string_view key) const override {
    auto value = find(key);
    if (!value) return std::nullopt;
    const ByteView bytes = *value;
    return SharedBytes{std::move(value), bytes};
  }
  std::optional<std::uint64_t> size(std::string_view key) const override {
    const auto value = find(key);
    return value ? std::optional<std::uint64_t>(value->size()) : std::nullopt;
  }
  std::optional<Location> locate(std::string_view key) const override {
    check_not_empty(key);
    return std::nullopt;
  }
  std::vector<ListEntry> list(std::string_view prefix) const override {
    const std::shared_lock lock(mutex_);
    std::vector<ListEntry> entries;
    for (auto it = values_.lower_bound(prefix);
         it != values_.end() && it->first.starts_with(prefix); ++it)
      entries.push_back({it->first, it->second->size()});
    return entries;
  }
  void write(std::string_view key, ByteView value) override {
    check_not_empty(key);
    auto bytes = std::make_shared<const Bytes>(value.begin(), value.end());
    const std::scoped_lock lock(mutex_);
    values_.insert_or_assign(std::string(key), std::move(bytes));
  }
  void remove(std::string_view key) override {
    check_not_empty(key);
    const std::scoped_lock lock(mutex_);
    if (const auto it = values_.find(key); it != values_.end()) values_.erase(it);
  }
  bool replace_if(std::string_view key, std::optional<ByteView> expected, ByteView value) override {
    check_not_empty(key);
    auto bytes = std::make_shared<const Bytes>(value.begin(), value.end());
    const std::scoped_lock lock(mutex_);
    const auto it = values_.find(key);
    const bool present = it != values_.end();
    if (present != expected.has_value() || (present && !std::ranges::equal(*it->second, *expected)))
      return false;
    values_.insert_or_assign(std::string(key), std::move(bytes));
    return true;
  }
  std::string describe(std::string_view key) const override {
    return "memory://" + std::string(key);
  }

 private:
  // A value in the map never changes, so readers keep it without holding the lock.
  [[nodiscard]] std::shared_ptr<const Bytes> find(std::string_view key) const {
    check_not_empty(key);
    const std::shared_lock lock(mutex_);
    const auto it = values_.find(key);
    return it == values_.end() ? nullptr : it->second;
  }

  mutable std::shared_mutex mutex_;
  std::map<std::string, std::shared_ptr<const Bytes>, std::less<>> values_;
};

}  // namespace

StorePtr make_memory_store() { return std::make_shared<MemoryStore>(); }

}  // namespace cairn::inline v0
