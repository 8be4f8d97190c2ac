// upload_memory.h -- how much memory a value may take on its way to an object store, and in which
// parts it goes there.
#pragma once

#include <cairn/storage/kvstore.h>

#include <cstddef>
#include <cstdint>

namespace cairn::inline v0 {

// Values up to this size are stored with one request, larger ones in parts of this size.
inline constexpr std::size_t kUploadPart = std::size_t{16} << 20U;
// An upload holds a part that fills and one that is sent.
inline constexpr std::uint64_t kLeastUploadMemory = 2 * kUploadPart;

// An appender that holds bytes until the store has them.
class UploadAppender : public Appender {
 public:
  // Limits these bytes. An upload to S3 sends the more parts at once the larger the limit is, and
  // holds at least two of them (32 MiB) whatever the limit. Call it before the first append.
  virtual void limit_memory(std::uint64_t bytes) = 0;
};

// Does nothing for an appender whose bytes do not wait in memory.
inline void limit_memory(Appender& appender, std::uint64_t bytes) {
  if (auto* upload = dynamic_cast<UploadAppender*>(&appender)) upload->limit_memory(bytes);
}

}  // namespace cairn::inline v0
