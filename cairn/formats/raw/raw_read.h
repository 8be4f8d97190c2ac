// raw_read.h -- bulk reading of arrays whose C-order bytes lie raw in files: one plan for many
// boxes, in parallel, with large reads straight into their destinations and neighbouring small ones
// as one.
#pragma once

#include <cairn/base/executor.h>
#include <cairn/checkpoint.h>
#include <cairn/formats/raw/checksum_kind.h>
#include <cairn/io/file.h>
#include <cairn/types.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace cairn {

// A run of an array's bytes in one of the reader's files.
struct RawRun {
  std::uint32_t file = 0;
  std::uint64_t offset = 0;
  std::uint64_t length = 0;
  bool operator==(const RawRun&) const = default;
};

// The bytes of an array that can only be had from front to back, as compressed ones are. Safe to
// use from many threads; what one call has left off the next one goes on with.
class SequentialBytes {
 public:
  SequentialBytes() = default;
  SequentialBytes(const SequentialBytes&) = delete;
  SequentialBytes& operator=(const SequentialBytes&) = delete;
  virtual ~SequentialBytes() = default;
  // The array's bytes from `offset` on. Throws data_loss for damage, with the last byte also if a
  // checksum of them all does not fit.
  virtual void read(const std::vector<File>& files, std::uint64_t offset,
                    MutableByteView out) const = 0;
  // Before a part of them is believed: reads them all and throws data_loss if their checksum does
  // not fit, unless that has been seen. Nothing for those that are only read whole.
  virtual void check_whole(const std::vector<File>& /*files*/) const {}
};

// The checksum of a run of bytes of which the array is the end.
struct RawChecksum {
  const ChecksumKind* kind = nullptr;
  std::uint32_t before = 0;  // of what lies before the array
  std::uint32_t whole = 0;   // as it should be; not masked
};

// Checksums of the parts of an array, noted as they are read, by any thread.
class RawSums {
 public:
  void add(std::uint64_t offset, std::uint64_t length, std::uint32_t crc);
  // That of `size` bytes from those of their parts; nullopt unless they are all there.
  [[nodiscard]] std::optional<std::uint32_t> of_all(const ChecksumKind& kind,
                                                    std::uint64_t size) const;

 private:
  struct Part {
    std::uint64_t offset, length;
    std::uint32_t crc;
  };
  mutable std::mutex mutex_;
  std::vector<Part> parts_;
};

// Where an array lies. The runs, one behind the other, are its bytes; or a stream is; or it has
// them here.
struct RawArray {
  std::vector<RawRun> runs;
  std::shared_ptr<const SequentialBytes> stream;
  // of values that no file holds as they are in memory; runs is empty then
  Bytes own;
  bool packed = false;  // two 4-bit elements a byte, the first one in the low bits
  // stored with the first dimension changing fastest; the reader is to ask for the transposed array
  bool fortran = false;
  // the bytes of elements are stored in the other order; the reader is to reverse them
  bool big_endian = false;
  std::optional<RawChecksum> checksum;  // of runs; a stream checks itself
};

// One box of one array and where it goes.
struct RawRead {
  const RawArray* array = nullptr;
  std::string_view name;                // for messages; must outlive the call
  std::span<const std::int64_t> shape;  // of the whole array; must outlive the call
  const Box* box = nullptr;
  const MutableArrayView* out = nullptr;  // of the array's dtype and the box's shape
  // gets the checksums of what is read in one piece, while it is in the cache
  RawSums* sums = nullptr;
};

struct RawReadContext {
  const std::vector<File>* files = nullptr;
  Executor* executor = nullptr;
  // bound of the scratch space of all threads together
  std::uint64_t memory = std::uint64_t{1} << 30U;
};

// Reads all of them; the first failure is thrown with the tensor's name in front.
void read_raw(const RawReadContext& context, std::span<const RawRead> reads,
              const ProgressFn& progress);

// The C-order bytes [offset, offset + out.size()) of an array that is not packed.
void read_raw_bytes(const std::vector<File>& files, const RawArray& array, std::uint64_t offset,
                    MutableByteView out);

// Throws invalid_argument or out_of_range unless `request` fits a tensor of `info`: box inside, out
// of the same type and shape.
void check_request(const TensorInfo& info, const ReadRequest& request);

}  // namespace cairn
