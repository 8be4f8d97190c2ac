// value_sink.cc -- writes a value with one piece at once, and appends the pieces of other values.
#include <cairn/kvstore/value_sink.h>

#include <cairn/kvstore/upload_memory.h>

#include <algorithm>

namespace cairn::inline v0 {
namespace {

// Requests of a store on their way at once.
constexpr std::size_t kWritesAtOnce = 32;

}  // namespace

StoreSink::StoreSink(StorePtr store, std::uint64_t upload_memory)
    : store_(std::move(store)),
      sending_(upload_memory == 0 ? 0 : std::max(upload_memory, kLeastUploadMemory)) {}

void StoreSink::write(std::string_view key, std::span<const ByteView> pieces) {
  if (waits()) return send(key, pieces);
  if (pieces.size() == 1) return store_->write(key, pieces[0]);
  const auto value = store_->append(key);
  value->append(pieces);
  value->commit();
}

void StoreSink::send(std::string_view key, std::span<const ByteView> pieces) {
  expect_waiting(kWritesAtOnce);
  std::uint64_t size = 0;
  for (const ByteView piece : pieces) size += piece.size();
  if (pieces.size() == 1 && size <= kUploadPart) return store_->write(key, pieces[0]);
  // The appender copies the pieces, a large value's part by part.
  const std::uint64_t held =
      size <= kUploadPart
          ? size
          : std::min(size + kUploadPart, std::max(sending_.limit() / 2, kLeastUploadMemory));
  const auto lease = sending_.acquire(held);
  const auto value = store_->append(key);
  limit_memory(*value, held);
  value->append(pieces);
  value->commit();
}

}  // namespace cairn::inline v0
