// copy_value.cc -- copies inside the store, or block by block.
#include <cairn/kvstore/folders/copy_value.h>

#include <cairn/error.h>
#include <cairn/io/tree/range_source.h>

#include <algorithm>
#include <cstdint>
#include <memory>

namespace cairn::inline v0 {
namespace {

constexpr std::uint64_t kCopiedBlock = std::uint64_t{16} << 20U;  // bytes

}  // namespace

void copy_value(KvStore& store, const StoredValue& value, const std::string& to) {
  if (store.copy(value.key, to)) return;
  const std::shared_ptr<const RangeSource> source = store.open_listed(value);
  if (source == nullptr)
    throw Error(Code::kUnavailable,
                store.describe(value.key) + ": was removed while it was copied");
  const std::unique_ptr<Appender> copied = store.append(to);
  Bytes block;
  for (std::uint64_t at = 0; at < source->size(); at += block.size()) {
    block.resize(std::min(kCopiedBlock, source->size() - at));
    source->read_into(at, block);
    const ByteView part = block;
    copied->append({&part, 1});
  }
  copied->commit();
}

}  // namespace cairn::inline v0
