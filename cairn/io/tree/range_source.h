// range_source.h -- RangeSource, the bytes of a file that is not on a local file system.
#pragma once

#include <cairn/bytes.h>

#include <cstdint>
#include <span>
#include <string>

namespace cairn::inline v0 {

// One version of one value of a store. The bytes never change: if the store replaces or removes the
// value, reads throw unavailable. Safe to use from many threads.
class RangeSource {
 public:
  RangeSource() = default;
  RangeSource(const RangeSource&) = delete;
  RangeSource& operator=(const RangeSource&) = delete;
  virtual ~RangeSource() = default;

  [[nodiscard]] virtual std::uint64_t size() const = 0;  // bytes
  // Fills all of `out` with the bytes from `offset`. Throws out_of_range if the value ends before
  // that, unavailable if the value has been replaced or removed, and io if the store refuses.
  virtual void read_into(std::uint64_t offset, MutableByteView out) const = 0;
  // Reads one contiguous range into several buffers, with one request. Bytes for a buffer without
  // data() are skipped.
  virtual void read_scatter(std::uint64_t offset, std::span<const MutableByteView> out) const = 0;
  // When the value was written, in nanoseconds since 1970; 0 if the store does not say.
  [[nodiscard]] virtual std::int64_t modified_ns() const = 0;
  // Tells this version from others of the same key: an ETag, a generation. "" if the store has
  // none.
  [[nodiscard]] virtual const std::string& version() const = 0;
};

}  // namespace cairn::inline v0
