// unchanged.cc -- compares elements with stored values. Values in the usual encodings are decoded
// and compared block by block, up to the first difference.
#include <cairn/zarr/write/unchanged.h>

#include <cairn/array/box.h>
#include <cairn/codec/zstd_frame.h>
#include <cairn/error.h>
#include <cairn/io/file.h>
#include <cairn/zarr/codec/checksum_step.h>
#include <cairn/zarr/codec/shard.h>
#include <cairn/zarr/read/decode.h>

#include <algorithm>
#include <array>
#include <cstring>

namespace cairn::inline v0::zarr {
namespace {

constexpr std::size_t kBlock = std::size_t{256} << 10U;  // bytes compared at once: fits a cache

// The bytes of a value in a file, read from front to back.
class StoredBytes {
 public:
  StoredBytes(const File& file, std::uint64_t offset, std::uint64_t length)
      : file_(file), offset_(offset), length_(length) {}

  [[nodiscard]] std::uint64_t length() const { return length_; }
  [[nodiscard]] StoredBytes part(std::uint64_t offset, std::uint64_t length) const {
    return {file_, offset_ + offset, length};
  }
  void read_into(std::uint64_t at, MutableByteView out) {
    announce(at);
    file_.read_into(offset_ + at, out);
  }
  void read_scatter(std::uint64_t at, std::span<const MutableByteView> parts) {
    announce(at);
    file_.read_scatter(offset_ + at, parts);
  }

 private:
  // Asks for the next megabytes. The kernel's own read-ahead does not keep a disk busy: without
  // this, a file that is not cached was read at a quarter of the disk's speed. It begins small,
  // because most values that have changed differ in their first block.
  void announce(std::uint64_t at) {
    constexpr std::uint64_t kFirst = std::uint64_t{1} << 20U, kNext = std::uint64_t{8} << 20U;
    if (announced_ >= length_ || announced_ > at + kNext / 2) return;
    const std::uint64_t size = std::min(announced_ == 0 ? kFirst : kNext, length_ - announced_);
    file_.will_need(offset_ + announced_, size);
    announced_ += size;
  }

  const File& file_;
  std::uint64_t offset_;
  std::uint64_t length_;
  std::uint64_t announced_ = 0;
};

bool equal(ByteView a, ByteView b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size()) == 0);
}

// Reads blocks with `read` and compares them with the elements.
template <class Read>
bool equal_blocks(ByteView elements, Read read) {
  Buffer buffer(std::min(kBlock, elements.size()));
  for (std::size_t at = 0; at < elements.size(); at += kBlock) {
    const ByteView wanted = elements.subspan(at, std::min(kBlock, elements.size() - at));
    const MutableByteView block(buffer.data(), wanted.size());
    read(at, block);
    if (!equal(block, wanted)) return false;
  }
  return true;
}

// Returns nullopt if the value must be decoded whole.
std::optional<bool> equal_zstd(StoredBytes stored, ByteView elements) {
  const auto scatter = [&](std::uint64_t at, std::span<const MutableByteView> parts) {
    stored.read_scatter(at, parts);
  };
  if (const auto raw = is_raw_zstd_frame_of(scatter, stored.length(), elements)) return raw;
  std::uint64_t done = 0;
  const auto source = [&](MutableByteView out) {
    const std::size_t n = std::min<std::uint64_t>(out.size(), stored.length() - done);
    stored.read_into(done, out.first(n));
    done += n;
    return n;
  };
  const auto stream = ZstdStream::open(source, stored.length(), elements.size());
  if (stream == nullptr) return std::nullopt;
  return equal_blocks(elements,
                      [&](std::size_t /*at*/, MutableByteView block) { stream->read(block); });
}

// A value with the right elements and a wrong checksum is damaged, and must not be shared.
bool equal_checksummed(StoredBytes stored, ByteView elements) {
  if (stored.length() != elements.size() + kChecksumSize) return false;
  RunningChecksum checksum{Crc32cStep{}};
  if (!equal_blocks(elements, [&](std::size_t at, MutableByteView block) {
        stored.read_into(at, block);
        checksum.add(block);
      }))
    return false;
  std::array<std::byte, kChecksumSize> sum{};
  stored.read_into(elements.size(), sum);
  checksum.check(sum);  // the caller writes a value that cannot be read anew
  return true;
}

// Returns nullopt if the value must be decoded whole.
std::optional<bool> equal_stored(const CodecChain& chain, StoredBytes stored, ByteView elements) {
  if (!chain.order.empty() || chain.nbytes != elements.size()) return std::nullopt;
  if (chain.shard) {
    const ShardCodec& shard = *chain.shard;
    if (shard.chunk_shape != chain.shape) return std::nullopt;  // several inner chunks
    const ShardIndexRange range = shard_index_range(shard, stored.length());
    Bytes bytes(range.length);
    stored.part(range.offset, range.length).read_into(0, bytes);
    const ShardEntry entry = decode_shard_index(shard, bytes, stored.length())[0];
    if (entry.absent()) return false;
    return equal_stored(shard.codecs, stored.part(entry.offset, entry.nbytes), elements);
  }
  if (chain.raw()) {
    if (stored.length() != elements.size()) return false;
    return equal_blocks(
        elements, [&](std::size_t at, MutableByteView block) { stored.read_into(at, block); });
  }
  if (chain.swap_bytes || chain.steps.size() != 1) return std::nullopt;
  if (is_only_crc32c(chain.steps)) return equal_checksummed(stored, elements);
  if (!is_zstd(chain.steps[0])) return std::nullopt;
  return equal_zstd(stored, elements);
}

bool equal_decoded(const ArrayMetadata& metadata, const PlannedChunk& chunk, StoredBytes stored,
                   ByteBudget* budget) {
  check_stored_size(metadata.codecs, stored.length());
  const auto held =
      budget ? budget->acquire(stored.length() + 3 * metadata.codecs.nbytes) : ByteBudget::Lease();
  Bytes bytes(stored.length());
  stored.read_into(0, bytes);
  Array before = Array::allocate(metadata.dtype, metadata.element_size, chunk.box.shape);
  Scratch scratch;
  decode_value({.metadata = metadata, .missing = MissingChunk::kError}, metadata.codecs, bytes,
               {.part = Box::whole(chunk.box.shape), .out = before.mutable_view()}, scratch);
  Array now = Array::allocate(metadata.dtype, metadata.element_size, chunk.box.shape);
  for (const ChunkSource& source : chunk.sources) {
    const MutableArrayView to = subview(now.mutable_view(), source.box);
    if (source.from.dtype == metadata.dtype)
      copy_elements(source.from, to);
    else
      cast_elements(source.from, to);
  }
  return equal(before.bytes(), now.bytes());
}

}  // namespace

bool is_unchanged(const ArrayMetadata& metadata, const PlannedChunk& chunk,
                  const Location& location, const std::string& key, const WriteContext& context) {
  if (!chunk.is_complete()) return false;
  const File file = File::open(location.file);
  const ValueFingerprints::Range range{file.state(), location.offset, location.length};
  const StoredBytes stored(file, location.offset, location.length);
  const auto elements = chunk.contiguous(metadata);
  if (elements) check_bools(metadata.dtype, *elements);
  if (!elements) return equal_decoded(metadata, chunk, stored, context.budget);
  std::optional<Fingerprint> now;
  if (context.fingerprints != nullptr) {
    if (const auto before = context.fingerprints->known().find(range)) {
      now = fingerprint(*elements);
      if (now != before) return context.fingerprints->note(key, *now), false;
    }
  }
  if (!now) {
    const auto same = equal_stored(metadata.codecs, stored, *elements);
    if (!(same ? *same : equal_decoded(metadata, chunk, stored, context.budget))) return false;
  }
  if (context.fingerprints != nullptr)
    context.fingerprints->note_stored(range, now ? *now : fingerprint(*elements));
  return true;
}

}  // namespace cairn::inline v0::zarr
