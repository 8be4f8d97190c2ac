// codec_chain.cc -- undoes the bytes-to-bytes steps of a chain, last one first.
#include <cairn/base/checksum.h>
#include <cairn/error.h>
#include <cairn/zarr/codec_chain.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <type_traits>

namespace cairn::zarr {
namespace {

// Decoded sizes up to this are allocated as the metadata says; beyond, only if the stored bytes are in proportion.
constexpr std::uint64_t kTrustedSize = std::uint64_t{16} << 20U;
constexpr std::uint64_t kTrustedRatio = 256;

[[noreturn]] void wrong_size(std::uint64_t expected, std::uint64_t found) {
  throw Error(Code::kDataLoss, "chunk decodes to " + std::to_string(found) + " bytes, expected " + std::to_string(expected));
}

// What an encoder can make of n bytes at most: the worst of the supported ones (bzip2, 1 % and some) with room to spare.
std::uint64_t encoded_bound(std::uint64_t n) { return n + n / 8 + 65536; }

ByteView strip_crc32c(const Crc32cStep& step, ByteView in) {
  if (in.size() < 4) throw Error(Code::kDataLoss, "crc32c: " + std::to_string(in.size()) + " bytes have no room for the checksum");
  const ByteView body = step.at_start ? in.subspan(4) : in.first(in.size() - 4);
  std::uint32_t stored = 0;
  std::memcpy(&stored, step.at_start ? in.data() : in.data() + body.size(), 4);
  const std::uint32_t computed = crc32c(body);
  if (stored != computed)
    throw Error(Code::kDataLoss, "crc32c mismatch: stored " + std::to_string(stored) + ", computed " + std::to_string(computed));
  return body;
}

void unshuffle(const ShuffleStep& step, ByteView in, MutableByteView out) {
  const std::size_t count = in.size() / step.element_size;
  for (std::size_t i = 0; i < count; ++i)
    for (std::size_t j = 0; j < step.element_size; ++j) out[i * step.element_size + j] = in[j * count + i];
  const std::size_t rest = count * step.element_size;
  std::copy(in.begin() + static_cast<std::ptrdiff_t>(rest), in.end(), out.begin() + static_cast<std::ptrdiff_t>(rest));
}

template <class T>
T reversed(T value) {
  if constexpr (sizeof(T) == 1) return value;
  if constexpr (sizeof(T) == 2) return static_cast<T>(__builtin_bswap16(value));
  if constexpr (sizeof(T) == 4) return static_cast<T>(__builtin_bswap32(value));
  if constexpr (sizeof(T) == 8) return static_cast<T>(__builtin_bswap64(value));
}

template <class T>
void running_sum(ByteView in, MutableByteView out, bool big_endian) {
  T sum = 0;
  for (std::size_t at = 0; at < in.size(); at += sizeof(T)) {
    T value;
    std::memcpy(&value, in.data() + at, sizeof(T));
    sum = static_cast<T>(sum + (big_endian ? reversed(value) : value));
    const T stored = big_endian ? reversed(sum) : sum;
    std::memcpy(out.data() + at, &stored, sizeof(T));
  }
}

void undo_delta(const DeltaStep& step, ByteView in, MutableByteView out) {
  if (in.size() % step.element_size != 0)
    throw Error(Code::kDataLoss, "delta: " + std::to_string(in.size()) + " bytes are no whole number of elements");
  switch (step.element_size) {
    case 1:
      return running_sum<std::uint8_t>(in, out, false);
    case 2:
      return running_sum<std::uint16_t>(in, out, step.big_endian);
    case 4:
      return running_sum<std::uint32_t>(in, out, step.big_endian);
    default:
      return running_sum<std::uint64_t>(in, out, step.big_endian);
  }
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

// One run over a chain: what is left to undo, and whether a checksum has vouched for it. Each layer's output is an exact
// function of its input, so one checksum anywhere covers everything inside it; `checksummed` asks for the whole value,
// so a checksum deep in the chain counts too: what is around it only decodes to the right bytes if it is unharmed.
struct Walk {
  ByteView current;
  Bytes owned;
  bool checksummed = false;

  void replace(Bytes next) {
    owned = std::move(next);
    current = owned;
  }
};

// Undoes one step whose output size is not known exactly, but is at most `bound`.
void undo_inner(const ByteStep& step, std::uint64_t bound, Walk& walk) {
  if (const auto* crc = std::get_if<Crc32cStep>(&step)) {
    walk.current = strip_crc32c(*crc, walk.current);
    walk.checksummed = true;
    return;
  }
  if (const auto* compress = std::get_if<CompressStep>(&step)) {
    walk.checksummed = walk.checksummed || compression_has_checksum(compress->codec, walk.current);
    return walk.replace(decompress(compress->codec, walk.current, bound));
  }
  Bytes next(walk.current.size());
  if (const auto* shuffle = std::get_if<ShuffleStep>(&step)) unshuffle(*shuffle, walk.current, next);
  if (const auto* delta = std::get_if<DeltaStep>(&step)) undo_delta(*delta, walk.current, next);
  walk.replace(std::move(next));
}

// Undoes the step closest to the elements, straight into `out`.
void undo_last(const ByteStep& step, MutableByteView out, Walk& walk) {
  if (const auto* compress = std::get_if<CompressStep>(&step)) {
    walk.checksummed = walk.checksummed || compression_has_checksum(compress->codec, walk.current);
    return decompress_into(compress->codec, walk.current, out);
  }
  if (const auto* crc = std::get_if<Crc32cStep>(&step)) {
    walk.current = strip_crc32c(*crc, walk.current);
    walk.checksummed = true;
  }
  if (walk.current.size() != out.size()) wrong_size(out.size(), walk.current.size());
  if (const auto* shuffle = std::get_if<ShuffleStep>(&step)) return unshuffle(*shuffle, walk.current, out);
  if (const auto* delta = std::get_if<DeltaStep>(&step)) return undo_delta(*delta, walk.current, out);
  if (!out.empty()) std::memcpy(out.data(), walk.current.data(), out.size());
}

// Undoes all checksums at the end of the chain; they cost no copy. Returns how many steps are left.
std::size_t undo_trailing_checksums(std::span<const ByteStep> steps, Walk& walk) {
  std::size_t left = steps.size();
  while (left > 0 && std::holds_alternative<Crc32cStep>(steps[left - 1])) undo_inner(steps[--left], 0, walk);
  return left;
}

bool finish_into(std::span<const ByteStep> steps, Walk& walk, MutableByteView out) {
  for (std::size_t i = steps.size(); i-- > 1;) undo_inner(steps[i], encoded_bound(out.size()), walk);
  if (!steps.empty()) {
    undo_last(steps[0], out, walk);
  } else {
    if (walk.current.size() != out.size()) wrong_size(out.size(), walk.current.size());
    if (!out.empty()) std::memcpy(out.data(), walk.current.data(), out.size());
  }
  return walk.checksummed;
}

}  // namespace

bool decode_steps(std::span<const ByteStep> steps, ByteView stored, MutableByteView out) {
  Walk walk{.current = stored, .owned = {}};
  return finish_into(steps.first(undo_trailing_checksums(steps, walk)), walk, out);
}

DecodedBytes decode_steps(std::span<const ByteStep> steps, ByteView stored, std::uint64_t nbytes, Scratch& scratch) {
  Walk walk{.current = stored, .owned = {}};
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
  for (std::size_t i = steps.size(); i-- > 0;) undo_inner(steps[i], i == 0 ? nbytes : encoded_bound(nbytes), walk);
  if (walk.current.size() != nbytes) wrong_size(nbytes, walk.current.size());
  const MutableByteView out = scratch.bytes(nbytes).first(nbytes);
  std::memcpy(out.data(), walk.current.data(), nbytes);
  return {out, walk.checksummed};
}

MutableByteView Scratch::bytes(std::size_t size) {
  if (buffer_.size() < size) {
    buffer_ = Buffer();  // give back before taking, so that both are never held at once
    buffer_ = Buffer(size);
  }
  return {buffer_.data(), buffer_.size()};
}

void Scratch::trim(std::size_t keep) {
  if (buffer_.size() > keep) buffer_ = Buffer();
}

}  // namespace cairn::zarr
