// codec_chain.cc -- undoes the bytes-to-bytes steps of a chain, the last step first.
#include <cairn/zarr/codec/codec_chain.h>

#include <cairn/base/git_lfs.h>
#include <cairn/error.h>
#include <cairn/zarr/codec/checksum_step.h>
#include <cairn/zarr/codec/filters.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

namespace cairn::inline v0::zarr {
namespace {

// A decoded size up to kTrustedSize is allocated as the metadata says. A larger one is allocated
// only if it is at most kTrustedRatio times the stored size.
constexpr std::uint64_t kTrustedSize = std::uint64_t{16} << 20U;
constexpr std::uint64_t kTrustedRatio = 256;

[[noreturn]] void wrong_size(std::uint64_t expected, std::uint64_t found) {
  throw Error(Code::kDataLoss, "chunk decodes to " + std::to_string(found) + " bytes, expected " +
                                   std::to_string(expected));
}

// Returns `in` without its checksum. Throws data_loss if the stored checksum is wrong.
ByteView strip_checksum(const ByteStep& step, ByteView in) {
  RunningChecksum checksum(step);
  if (in.size() < kChecksumSize)
    throw Error(Code::kDataLoss, std::string(checksum.name()) + ": " + std::to_string(in.size()) +
                                     " bytes are too few for the checksum");
  const std::size_t size = in.size() - kChecksumSize;
  const ByteView body = checksum.at_start() ? in.subspan(kChecksumSize) : in.first(size);
  checksum.add(body);
  checksum.check(checksum.at_start() ? in.first(kChecksumSize) : in.subspan(size));
  return body;
}

bool compression_has_checksum(Codec codec, ByteView in) {
  switch (codec) {
    case Codec::kGzip:
    case Codec::kZlib:
    case Codec::kBz2:
      return true;
    case Codec::kZstd:
      return zstd_has_checksum(in);
    case Codec::kBlosc:
    case Codec::kLz4:
      return false;
  }
  return false;
}

// The state of decoding one value: the bytes that are left to decode, and whether a checksum has
// covered the value. The output of each layer is an exact function of its input, so one checksum
// anywhere covers everything inside it. `checksummed` refers to the whole value. A checksum deep in
// the chain counts, too: the layers around it decode to the right bytes only if they are undamaged.
struct Walk {
  ByteView current;
  Bytes owned;
  bool checksummed = false;
  Frames frames = Frames::kAny;  // of which `current` may consist

  // Returns the frames for the next step.
  Frames next_frames() { return std::exchange(frames, frames_inside(frames)); }
  void replace(Bytes next) {
    owned = std::move(next);
    current = owned;
  }
};

// Undoes one step whose output is at most `bound` bytes.
void undo_inner(const ByteStep& step, std::uint64_t bound, Walk& walk) {
  const Frames frames = walk.next_frames();
  if (is_checksum(step)) {
    walk.current = strip_checksum(step, walk.current);
    walk.checksummed = true;
    return;
  }
  if (const auto* compress = std::get_if<CompressStep>(&step)) {
    walk.checksummed = walk.checksummed || compression_has_checksum(compress->codec, walk.current);
    return walk.replace(decompress(compress->codec, walk.current, bound, frames));
  }
  const FilterStep filter = *as_filter(step);
  const std::uint64_t size = unfiltered_size(filter, walk.current);
  if (size > bound) wrong_size(bound, size);
  Bytes next(size);
  undo_filter(filter, walk.current, next);
  walk.replace(std::move(next));
}

// Undoes the step closest to the elements, straight into `out`.
void undo_last(const ByteStep& step, MutableByteView out, Walk& walk) {
  if (const auto* compress = std::get_if<CompressStep>(&step)) {
    walk.checksummed = walk.checksummed || compression_has_checksum(compress->codec, walk.current);
    return decompress_into(compress->codec, walk.current, out, walk.frames);
  }
  if (const auto filter = as_filter(step)) {
    const std::uint64_t size = unfiltered_size(*filter, walk.current);
    if (size != out.size()) wrong_size(out.size(), size);
    return undo_filter(*filter, walk.current, out);
  }
  undo_inner(step, 0, walk);
  if (walk.current.size() != out.size()) wrong_size(out.size(), walk.current.size());
  if (!out.empty()) std::memcpy(out.data(), walk.current.data(), out.size());
}

// Undoes all checksums at the end of the chain, which needs no copy. Returns the number of
// remaining steps.
std::size_t undo_trailing_checksums(std::span<const ByteStep> steps, Walk& walk) {
  std::size_t left = steps.size();
  while (left > 0 && is_checksum(steps[left - 1])) undo_inner(steps[--left], 0, walk);
  return left;
}

// Undoes all steps except the first.
void undo_to_first(std::span<const ByteStep> steps, std::uint64_t nbytes, Walk& walk) {
  // bounds[i]: the size that step i had as input when writing
  std::vector<std::uint64_t> bounds(steps.size(), nbytes);
  for (std::size_t i = 1; i < steps.size(); ++i)
    bounds[i] = encoded_bound(steps[i - 1], bounds[i - 1]);
  for (std::size_t i = steps.size(); i-- > 1;) undo_inner(steps[i], bounds[i], walk);
}

bool finish_into(std::span<const ByteStep> steps, Walk& walk, MutableByteView out) {
  undo_to_first(steps, out.size(), walk);
  if (!steps.empty()) {
    undo_last(steps[0], out, walk);
  } else {
    if (walk.current.size() != out.size()) wrong_size(out.size(), walk.current.size());
    if (!out.empty()) std::memcpy(out.data(), walk.current.data(), out.size());
  }
  return walk.checksummed;
}

}  // namespace

std::uint64_t encoded_bound(const ByteStep& step, std::uint64_t n) {
  // far more than any real size; sums and products cannot overflow
  constexpr std::uint64_t kMost = std::uint64_t{1} << 58U;
  n = std::min(n, kMost);
  if (is_checksum(step)) return n + kChecksumSize;
  if (const auto filter = as_filter(step)) return std::min(kMost, filtered_size(*filter, n));
  // the worst of the supported compressors (bzip2, a little over 1 %) with a margin
  return n + n / 8 + 65536;
}

void check_stored_size(const CodecChain& chain, std::uint64_t length) {
  // Other encoders may add data: frames of other sizes, file names, comments.
  constexpr std::uint64_t kRoom = std::uint64_t{1} << 20U;
  if (chain.shard || chain.objects != ObjectCodec::kNone || length <= kRoom) return;
  std::uint64_t most = chain.nbytes;
  for (const ByteStep& step : chain.steps) most = encoded_bound(step, most);
  most += most / 16 + kRoom;
  if (length > most)
    throw Error(Code::kDataLoss, "chunk has " + std::to_string(length) +
                                     " bytes, expected at most " + std::to_string(most) + " for " +
                                     std::to_string(chain.nbytes) + " bytes of elements");
}

std::uint64_t memory_between(std::span<const ByteStep> steps, std::uint64_t nbytes) {
  while (!steps.empty() && is_checksum(steps.back())) steps = steps.first(steps.size() - 1);
  // While a step is undone, both its input and its output are in memory. The outermost input and
  // the elements are held elsewhere.
  std::uint64_t most = 0;
  std::uint64_t given = 0;
  std::uint64_t size = nbytes;
  for (std::size_t i = 1; i < steps.size(); ++i) {
    size = encoded_bound(steps[i - 1], size);
    if (is_checksum(steps[i])) continue;  // undoing a checksum returns a part of its input
    most = std::max(most, given + size);
    given = size;
  }
  return most;
}

bool decode_steps(std::span<const ByteStep> steps, ByteView stored, MutableByteView out) {
  return explain_lfs_pointer(stored, [&] {
    Walk walk{.current = stored, .owned = {}};
    return finish_into(steps.first(undo_trailing_checksums(steps, walk)), walk, out);
  });
}

namespace {

DecodedBytes decode_to_scratch(std::span<const ByteStep> steps, ByteView stored,
                               std::uint64_t nbytes, Scratch& scratch, Frames frames) {
  Walk walk{.current = stored, .owned = {}, .frames = frames};
  steps = steps.first(undo_trailing_checksums(steps, walk));
  if (steps.empty()) {
    if (walk.current.size() != nbytes) wrong_size(nbytes, walk.current.size());
    return {walk.current, walk.checksummed};
  }
  if (nbytes <= kTrustedSize || nbytes / kTrustedRatio <= stored.size()) {
    const MutableByteView out = scratch.bytes(nbytes).first(nbytes);
    finish_into(steps, walk, out);
    return {out, walk.checksummed};
  }
  undo_to_first(steps, nbytes, walk);
  undo_inner(steps[0], nbytes, walk);
  if (walk.current.size() != nbytes) wrong_size(nbytes, walk.current.size());
  const MutableByteView out = scratch.bytes(nbytes).first(nbytes);
  std::memcpy(out.data(), walk.current.data(), nbytes);
  return {out, walk.checksummed};
}

}  // namespace

DecodedBytes decode_steps(std::span<const ByteStep> steps, ByteView stored, std::uint64_t nbytes,
                          Scratch& scratch, Frames frames) {
  return explain_lfs_pointer(
      stored, [&] { return decode_to_scratch(steps, stored, nbytes, scratch, frames); });
}

DecodedBytes decode_unsized(std::span<const ByteStep> steps, ByteView stored,
                            std::uint64_t max_size, Bytes& owned) {
  Walk walk{.current = stored, .owned = {}};
  for (std::size_t i = steps.size(); i-- > 0;) undo_inner(steps[i], max_size, walk);
  owned = std::move(walk.owned);  // moving does not move the bytes, so the view stays valid
  return {walk.current, walk.checksummed};
}

MutableByteView Scratch::bytes(std::size_t size) {
  if (buffer_.size() < size) {
    buffer_ = Buffer();  // free before allocating, so that both are never held at once
    buffer_ = Buffer(size);
  }
  return {buffer_.data(), buffer_.size()};
}

void Scratch::trim(std::size_t keep) {
  if (buffer_.size() > keep) buffer_ = Buffer();
}

}  // namespace cairn::inline v0::zarr
