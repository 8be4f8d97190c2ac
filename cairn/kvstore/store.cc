// store.cc -- the default implementations of KvStore functions, and key ranges.
#include <cairn/kvstore/range.h>
#include <cairn/storage/kvstore.h>

#include <algorithm>

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

}  // namespace

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
