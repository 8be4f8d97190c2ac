// bundle_strings.cc -- the head of a tensor of strings, both directions.
#include <cairn/formats/tensorflow/index/bundle_strings.h>

#include <cairn/base/byte_io.h>
#include <cairn/base/byte_order.h>
#include <cairn/base/checksum.h>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>

namespace cairn::inline v0 {
namespace {

constexpr std::uint64_t kStringsBlock = std::uint64_t{256} << 10U;
constexpr std::size_t kMaxVarint = 10;
constexpr std::size_t kChecksum = 4;

// The checksum of the lengths covers integers of a fixed size, not the varints in the file.
std::uint32_t extend_by_length(std::uint32_t crc, std::uint64_t length, bool big_endian) {
  std::array<std::byte, 8> bytes{};
  if (length <= std::numeric_limits<std::uint32_t>::max()) {
    auto small = static_cast<std::uint32_t>(length);
    if (big_endian) small = __builtin_bswap32(small);
    store_little_endian(small, bytes);
    return crc32c_extend(crc, ByteView(bytes).first(sizeof small));
  }
  if (big_endian) length = __builtin_bswap64(length);
  store_little_endian(length, bytes);
  return crc32c_extend(crc, bytes);
}

// Reads an entry from its beginning, a block at a time.
class EntryStart {
 public:
  EntryStart(std::uint64_t size, const SstableReadFn& read) : size_(size), read_(read) {}

  // Returns the next bytes: at least `least` of them, or all that remain.
  ByteView peek(std::size_t least) {
    if (block_.size() - used_ < least && at_ < size_) {
      block_.erase(block_.begin(), block_.begin() + static_cast<std::ptrdiff_t>(used_));
      used_ = 0;
      const std::size_t old = block_.size();
      block_.resize(old + std::min(kStringsBlock, size_ - at_));
      read_(at_, MutableByteView(block_).subspan(old));
      at_ += block_.size() - old;
    }
    return ByteView(block_).subspan(used_);
  }
  void skip(std::size_t n) {
    used_ += n;
    offset_ += n;
  }
  [[nodiscard]] std::uint64_t offset() const { return offset_; }

 private:
  std::uint64_t size_;
  const SstableReadFn& read_;
  Bytes block_;
  std::size_t used_ = 0;      // of block_
  std::uint64_t at_ = 0;      // offset of the next byte to read
  std::uint64_t offset_ = 0;  // offset of the next byte to use
};

}  // namespace

BundleStrings read_bundle_strings(std::uint64_t count, std::uint64_t size, bool big_endian,
                                  const SstableReadFn& read) {
  BundleStrings strings;
  if (size < kChecksum || count > size - kChecksum)
    throw Error(Code::kDataLoss, fmt::format("{} strings do not fit in {} bytes", count, size));
  strings.lengths.reserve(count);
  EntryStart in(size, read);
  std::uint64_t left = size;  // bytes after the lengths read so far
  for (std::uint64_t i = 0; i < count; ++i) {
    ByteReader varint(in.peek(kMaxVarint));
    const auto length = cairn::with_context(
        [&] { return fmt::format("the length of string {}", i); }, [&] { return varint.varint(); });
    in.skip(varint.offset());
    left = size - in.offset();
    strings.lengths.push_back(length);
    strings.crc = extend_by_length(strings.crc, length, big_endian);
  }
  ByteReader checksum(in.peek(kChecksum));
  const ByteView stored = cairn::with_context([] { return "the checksum of the lengths"; },
                                              [&] { return checksum.take(kChecksum); });
  const std::uint32_t expect = big_endian ? ByteReader(stored).u32_be() : ByteReader(stored).u32();
  if (crc32c_masked(strings.crc) != expect)
    throw Error(Code::kDataLoss, fmt::format("the lengths of its strings are damaged: their masked "
                                             "crc32c is {:08x}, stored is {:08x}",
                                             crc32c_masked(strings.crc), expect));
  strings.crc = crc32c_extend(strings.crc, stored);
  left -= kChecksum;
  strings.start = size - left;
  for (const std::uint64_t length : strings.lengths) {
    if (length > left)
      throw Error(Code::kDataLoss,
                  fmt::format("its strings are longer than the {} bytes of its entry", size));
    left -= length;
  }
  if (left != 0)
    throw Error(Code::kDataLoss, fmt::format("{} bytes of its entry follow its last string", left));
  return strings;
}

BundleStringsHead encode_bundle_strings(std::span<const std::uint64_t> lengths) {
  BundleStringsHead head;
  ByteWriter out;
  for (const std::uint64_t length : lengths) {
    out.varint(length);
    head.crc = extend_by_length(head.crc, length, false);
  }
  out.u32(crc32c_masked(head.crc));
  head.crc = crc32c_extend(head.crc, out.view().last(kChecksum));
  head.bytes = std::move(out).take();
  return head;
}

}  // namespace cairn::inline v0
