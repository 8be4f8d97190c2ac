// memory.cc -- a store in memory: the reference implementation of the contract.
#include <cairn/io/tree/range_source.h>
#include <cairn/kvstore/range.h>
#include <cairn/storage/kvstore.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <mutex>
#include <shared_mutex>

namespace cairn::inline v0 {
namespace {

// A value as it was written once.
struct StoredBytes {
  Bytes bytes;
  std::string version;
  std::int64_t modified_ns = 0;
};

std::int64_t clock_ns() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
}

class MemoryStore;

// As an object store's: it names a version, and reads fail once the store has another one.
class MemorySource : public RangeSource {
 public:
  MemorySource(const MemoryStore& store, std::string_view key,
               std::shared_ptr<const StoredBytes> value)
      : store_(store), key_(key), value_(std::move(value)) {}

  std::uint64_t size() const override { return value_->bytes.size(); }
  void read_into(std::uint64_t offset, MutableByteView out) const override {
    read_scatter(offset, {&out, 1});
  }
  void read_scatter(std::uint64_t offset, std::span<const MutableByteView> out) const override;
  std::int64_t modified_ns() const override { return value_->modified_ns; }
  const std::string& version() const override { return value_->version; }

 private:
  const MemoryStore& store_;
  std::string key_;
  std::shared_ptr<const StoredBytes> value_;
};

class MemoryStore : public KvStore {
 public:
  std::optional<Bytes> read(std::string_view key, ByteRange range) const override {
    const auto value = find(key);
    if (!value) return std::nullopt;
    const std::uint64_t length = with_context(
        [&] { return describe(key); }, [&] { return length_in(range, value->bytes.size()); });
    const auto first = value->bytes.begin() + static_cast<std::ptrdiff_t>(range.offset);
    return Bytes(first, first + static_cast<std::ptrdiff_t>(length));
  }
  std::optional<Bytes> read_at_most(std::string_view key, std::uint64_t most) const override {
    const auto value = find(key);
    if (!value) return std::nullopt;
    with_context([&] { return describe(key); }, [&] { check_at_most(value->bytes.size(), most); });
    return value->bytes;
  }
  bool read_into(std::string_view key, std::uint64_t offset, MutableByteView out) const override {
    const auto value = find(key);
    if (!value) return false;
    with_context([&] { return describe(key); },
                 [&] {
                   return length_in({offset, out.size()}, value->bytes.size());
                 });
    std::copy_n(value->bytes.begin() + static_cast<std::ptrdiff_t>(offset), out.size(),
                out.begin());
    return true;
  }
  std::optional<SharedBytes> map(std::string_view key) const override {
    auto value = find(key);
    if (!value) return std::nullopt;
    const ByteView bytes = value->bytes;
    return SharedBytes{std::move(value), bytes};
  }
  std::optional<std::uint64_t> size(std::string_view key) const override {
    const auto value = find(key);
    return value ? std::optional<std::uint64_t>(value->bytes.size()) : std::nullopt;
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
      entries.push_back({it->first, it->second->bytes.size()});
    return entries;
  }
  StoreListing list_values(std::string_view prefix, std::size_t most) const override {
    const std::shared_lock lock(mutex_);
    StoreListing listing;
    auto it = values_.lower_bound(prefix);
    for (; it != values_.end() && it->first.starts_with(prefix) && listing.values.size() < most;
         ++it)
      listing.values.push_back(
          {it->first, it->second->bytes.size(), it->second->version, it->second->modified_ns});
    listing.is_whole = it == values_.end() || !it->first.starts_with(prefix);
    return listing;
  }
  std::shared_ptr<const RangeSource> open(std::string_view key,
                                          std::string_view version) const override {
    auto value = find(key);
    if (!value) return nullptr;
    if (!version.empty() && version != value->version) fail_replaced(key);
    return std::make_shared<const MemorySource>(*this, key, std::move(value));
  }
  bool copy(std::string_view from, std::string_view to) override {
    check_not_empty(to);
    const auto value = find(from);
    if (value) write(to, value->bytes);
    return value != nullptr;
  }
  // Throws unavailable unless the key still has this value.
  void check_current(std::string_view key, const StoredBytes& value) const {
    if (find(key).get() != &value) fail_replaced(key);
  }
  void write(std::string_view key, ByteView value) override {
    check_not_empty(key);
    const std::scoped_lock lock(mutex_);
    store(key, value);
  }
  void remove(std::string_view key) override {
    check_not_empty(key);
    const std::scoped_lock lock(mutex_);
    if (const auto it = values_.find(key); it != values_.end()) values_.erase(it);
  }
  bool replace_if(std::string_view key, std::optional<ByteView> expected, ByteView value) override {
    check_not_empty(key);
    const std::scoped_lock lock(mutex_);
    const auto it = values_.find(key);
    const bool present = it != values_.end();
    if (present != expected.has_value() ||
        (present && !std::ranges::equal(it->second->bytes, *expected)))
      return false;
    store(key, value);
    return true;
  }
  std::string describe(std::string_view key) const override {
    return "memory://" + std::string(key);
  }

 private:
  // A value in the map never changes, so readers keep it without holding the lock.
  [[nodiscard]] std::shared_ptr<const StoredBytes> find(std::string_view key) const {
    check_not_empty(key);
    const std::shared_lock lock(mutex_);
    const auto it = values_.find(key);
    return it == values_.end() ? nullptr : it->second;
  }

  // The caller holds the lock.
  void store(std::string_view key, ByteView value) {
    values_.insert_or_assign(std::string(key), std::make_shared<const StoredBytes>(StoredBytes{
                                                   .bytes = Bytes(value.begin(), value.end()),
                                                   .version = std::to_string(++writes_),
                                                   .modified_ns = clock_ns()}));
  }
  [[noreturn]] void fail_replaced(std::string_view key) const {
    throw Error(Code::kUnavailable,
                describe(key) + ": was replaced or removed while Cairn read it; open it again");
  }

  mutable std::shared_mutex mutex_;
  std::uint64_t writes_ = 0;
  std::map<std::string, std::shared_ptr<const StoredBytes>, std::less<>> values_;
};

void MemorySource::read_scatter(std::uint64_t offset, std::span<const MutableByteView> out) const {
  std::uint64_t length = 0;
  for (const MutableByteView part : out) length += part.size();
  with_context([&] { return store_.describe(key_); },
               [&] { return length_in({.offset = offset, .length = length}, size()); });
  store_.check_current(key_, *value_);
  scatter(ByteView(value_->bytes).subspan(offset, length), out);
}

}  // namespace

StorePtr make_memory_store() { return std::make_shared<MemoryStore>(); }

}  // namespace cairn::inline v0
