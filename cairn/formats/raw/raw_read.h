// raw_read.h -- bulk reads of arrays whose C-order bytes lie raw in files. One plan covers many
// boxes and runs in parallel. Large reads go straight to their destinations; neighbouring small
// reads are merged.
#pragma once

#include <cairn/base/byte_order.h>
#include <cairn/base/executor.h>
#include <cairn/checkpoint.h>
#include <cairn/formats/raw/checksum_kind.h>
#include <cairn/formats/raw/part_checksums.h>
#include <cairn/io/file.h>
#include <cairn/types.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

namespace cairn::inline v0 {

// A run of an array's bytes in one of the reader's files.
struct RawRun {
  std::uint32_t file = 0;
  std::uint64_t offset = 0;
  std::uint64_t length = 0;
  bool operator==(const RawRun&) const = default;
};

// The bytes of an array that can only be read from front to back, such as compressed bytes. Safe to
// use from many threads. A call continues where an earlier one stopped, if it can.
class SequentialBytes {
 public:
  SequentialBytes() = default;
  SequentialBytes(const SequentialBytes&) = delete;
  SequentialBytes& operator=(const SequentialBytes&) = delete;
  virtual ~SequentialBytes() = default;
  // The number of the array's bytes.
  [[nodiscard]] virtual std::uint64_t size() const = 0;
  // Reads the array's bytes from `offset` on. Throws data_loss for damage. The read that reaches
  // the last byte also throws it if the checksum of the whole does not match.
  virtual void read(const std::vector<File>& files, std::uint64_t offset,
                    MutableByteView out) const = 0;
  // Called before a part of the bytes is trusted. Reads all of them and throws data_loss if their
  // checksum does not match; does nothing if that was verified before. The default does nothing: it
  // is for bytes that are only read whole.
  virtual void check_whole(const std::vector<File>& /*files*/) const {}
  // Whether a read of all bytes notices every damage to them.
  [[nodiscard]] virtual bool has_checksum() const { return true; }
};

// The checksum of a run of bytes that ends with the array.
struct RawChecksum {
  const ChecksumKind* kind = nullptr;
  std::uint32_t before = 0;  // checksum of the bytes before the array
  std::uint32_t whole = 0;   // the expected checksum of the whole run; not masked
};

class CommonBytes;

// Where an array's bytes are: in runs, one after another; or in a stream; or here, in `own`.
struct RawArray {
  std::vector<RawRun> runs;
  std::shared_ptr<const SequentialBytes> stream;
  // values that no file holds as they are in memory; `runs` is then empty
  Bytes own;
  // `own` and the shape were compared with a checksum when they were read
  bool is_protected = false;
  // elements in a byte: 2 of 4 bits or 4 of 2 bits, the first one in the low bits
  std::uint8_t in_byte = 1;
  // If set, dimension i of the stored array is dimension axes[i] of this one: the reader must ask
  // for the transposed array. Fortran order has them reversed.
  std::vector<std::uint8_t> axes;
  // the byte order of the elements, also in `own`; the reader must reverse the bytes of numbers in
  // the other order than the machine's
  bool big_endian = false;
  // the elements have less than 8 bits, one in each byte; the reader must clear the other bits
  bool spare_bits = false;
  bool negated = false;                 // the reader must change the signs
  bool conjugated = false;              // the reader must change the signs of imaginary parts
  std::optional<RawChecksum> checksum;  // of the runs; a stream checks itself
  // If set, the array shows a part of these bytes, and other arrays others: they are checked once.
  std::shared_ptr<const CommonBytes> within;

  // Returns the number of bytes in the runs or in the stream.
  [[nodiscard]] std::uint64_t stored_bytes() const {
    if (stream) return stream->size();
    std::uint64_t sum = 0;
    for (const RawRun& run : runs) sum += run.length;
    return sum;
  }
  // Whether the elements in memory are the stored bytes, in order.
  [[nodiscard]] bool is_as_in_memory() const {
    return !is_packed() && axes.empty() && !has_changed_elements();
  }
  [[nodiscard]] bool is_packed() const { return in_byte > 1; }
  // Whether the reader must change elements after it has read them.
  [[nodiscard]] bool has_changed_elements() const {
    return big_endian != kBigEndianMachine || spare_bits || negated || conjugated;
  }
};

// Bytes that several arrays show, whole or in part: a storage of PyTorch.
class CommonBytes {
 public:
  explicit CommonBytes(RawArray all) : all_(std::move(all)) {}
  [[nodiscard]] const RawArray& all() const { return all_; }
  // Whether they were read and are as their checksum says. Any thread may set it.
  [[nodiscard]] bool checked() const { return checked_; }
  void set_checked() const { checked_ = true; }

 private:
  RawArray all_;  // without `within`
  mutable std::atomic<bool> checked_{false};
};

class DeferredArray;

// The bytes of a tensor, or of a box of it.
struct RawSlice {
  RawArray array;
  std::optional<Box> box;    // in the tensor's elements; nullopt: the whole tensor
  std::uint32_t tensor = 0;  // index of the tensor
  // If set, it finds the array, and `array` is empty.
  std::shared_ptr<const DeferredArray> deferred;

  // The array, which has been found.
  [[nodiscard]] const RawArray& bytes() const;
};

// One box of one array, and where it goes.
struct RawRead {
  const RawArray* array = nullptr;
  std::string_view name;                // for messages; must outlive the call
  std::span<const std::int64_t> shape;  // of the whole array; must outlive the call
  const Box* box = nullptr;
  const MutableArrayView* out = nullptr;  // of the array's dtype and the box's shape
  // receives the checksums of bytes read in one piece, taken while they are in the cache
  PartChecksums* sums = nullptr;
};

// The files, executor and memory that all reads of a call share.
struct RawReadContext {
  const std::vector<File>* files = nullptr;
  Executor* executor = nullptr;
  // bound for the scratch space of all threads together
  std::uint64_t memory = std::uint64_t{1} << 30U;
};

// Performs all reads. Throws the first failure, with the tensor's name in front.
void read_raw(const RawReadContext& context, std::span<const RawRead> reads,
              const ProgressFn& progress);

// Reads the C-order bytes [offset, offset + out.size()) of an array that is not packed.
void read_raw_bytes(const std::vector<File>& files, const RawArray& array, std::uint64_t offset,
                    MutableByteView out);

// Throws invalid_argument or out_of_range unless `request` fits a tensor of `info`: the box lies
// inside it, and the output has the same type and shape.
void check_request(const TensorInfo& info, const ReadRequest& request);

}  // namespace cairn::inline v0
