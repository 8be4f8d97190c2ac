// store.cc -- the default implementations of KvStore functions, and key ranges.
#include <cairn/io/tree/range_source.h>
#include <cairn/kvstore/range.h>
#include <cairn/storage/kvstore.h>

#include <algorithm>
#include <cstdint>

namespace cairn::inline v0 {
namespace {

// For stores that accept only whole values.
class BufferedAppender : public Appender {
 public:
  BufferedAppender(KvStore& store, std::string_view key) : store_(store), key_(key) {}

  void append(std::span<const ByteView> parts) override {
    if (committed_)
      throw Error(Code::kFailedPrecondition, store_.describe(key_) + ": written after its commit");
    for (const ByteView part : parts) bytes_.insert(bytes_.end(), part.begin(), part.end());
  }
  std::uint64_t size() const override { return bytes_.size(); }
  void commit() override {
    if (committed_)
      throw Error(Code::kFailedPrecondition, store_.describe(key_) + ": committed twice");
    store_.write(key_, bytes_);
    committed_ = true;
  }

 private:
  KvStore& store_;
  std::string key_;
  Bytes bytes_;
  bool committed_ = false;
};

// A value of a store that cannot tell its versions apart.
class KeySource : public RangeSource {
 public:
  KeySource(const KvStore& store, std::string_view key, std::uint64_t size)
      : store_(store), key_(key), size_(size) {}

  std::uint64_t size() const override { return size_; }
  void read_into(std::uint64_t offset, MutableByteView out) const override {
    if (!store_.read_into(key_, offset, out)) fail_replaced();
  }
  void read_scatter(std::uint64_t offset, std::span<const MutableByteView> out) const override {
    std::uint64_t length = 0;
    for (const MutableByteView part : out) length += part.size();
    const auto bytes = store_.read(key_, {.offset = offset, .length = length});
    if (!bytes) fail_replaced();
    scatter(*bytes, out);
  }
  std::int64_t modified_ns() const override { return 0; }
  const std::string& version() const override { return version_; }

 private:
  [[noreturn]] void fail_replaced() const {
    throw Error(Code::kUnavailable,
                store_.describe(key_) + ": was removed while Cairn read it; open it again");
  }

  const KvStore& store_;
  std::string key_;
  std::uint64_t size_;
  std::string version_;
};

// Adds a key to a level: as a value, or as the folder that contains it. Keys come in order.
void add_to_level(StoreListing& level, std::size_t prefix_size, StoredValue value) {
  const auto slash = value.key.find('/', prefix_size);
  if (slash == std::string::npos) {
    level.values.push_back(std::move(value));
    return;
  }
  value.key.resize(slash + 1);
  if (level.folders.empty() || level.folders.back() != value.key)
    level.folders.push_back(std::move(value.key));
}

}  // namespace

void scatter(ByteView bytes, std::span<const MutableByteView> out) {
  for (const MutableByteView part : out) {
    if (part.data() != nullptr) std::ranges::copy(bytes.first(part.size()), part.begin());
    bytes = bytes.subspan(part.size());
  }
}

KeyRange KeyRange::with_prefix(std::string_view prefix) {
  KeyRange range{.first = std::string(prefix), .last = std::string(prefix)};
  // The smallest key after all keys with the prefix: increment the last byte that can be
  // incremented and drop the bytes after it.
  while (!range.last->empty() && range.last->back() == '\xff') range.last->pop_back();
  if (range.last->empty())
    range.last.reset();
  else
    range.last->back() = static_cast<char>(static_cast<unsigned char>(range.last->back()) + 1U);
  return range;
}

StoreListing KvStore::list_level(std::string_view prefix) const {
  StoreListing level;
  for (StoredValue& value : list_values(prefix, SIZE_MAX).values)
    add_to_level(level, prefix.size(), std::move(value));
  return level;
}

StoreListing KvStore::list_values(std::string_view prefix, std::size_t most) const {
  StoreListing listing;
  for (ListEntry& entry : list(prefix)) {
    if (listing.values.size() == most) {
      listing.is_whole = false;
      break;
    }
    listing.values.push_back({.key = std::move(entry.key), .size = entry.size});
  }
  return listing;
}

std::shared_ptr<const RangeSource> KvStore::open(std::string_view key,
                                                 std::string_view /*version*/) const {
  const auto length = size(key);
  return length ? std::make_shared<const KeySource>(*this, key, *length) : nullptr;
}

std::shared_ptr<const RangeSource> KvStore::open_listed(const StoredValue& value) const {
  return open(value.key, value.version);
}

void KvStore::remove_all(const std::vector<std::string>& keys) {
  for (const std::string& key : keys) remove(key);
}

bool KvStore::copy(std::string_view /*from*/, std::string_view /*to*/) { return false; }

bool KvStore::replace_if(std::string_view key, std::optional<ByteView> /*expected*/,
                         ByteView /*value*/) {
  throw Error(Code::kUnimplemented,
              describe(key) + ": this store does not support conditional writes");
}

std::unique_ptr<Appender> KvStore::append(std::string_view key) {
  check_not_empty(key);
  return std::make_unique<BufferedAppender>(*this, key);
}

void remove_range(KvStore& store, const KeyRange& range) {
  std::string_view shared;  // the prefix that all keys of the range share
  if (range.last) {
    const auto differ = std::mismatch(range.first.begin(), range.first.end(), range.last->begin(),
                                      range.last->end())
                            .first;
    shared = std::string_view(range.first)
                 .substr(0, static_cast<std::size_t>(differ - range.first.begin()));
  }
  for (const auto& entry : store.list(shared))
    if (range.contains(entry.key)) store.remove(entry.key);
}

}  // namespace cairn::inline v0
