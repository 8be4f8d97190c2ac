// envelope.cc -- writes and verifies the magic, length, version, compression and CRC-32C around
// every encoded object.
#include <cairn/ocdbt/format/envelope.h>

#include <cairn/base/byte_io.h>
#include <cairn/base/checksum.h>
#include <cairn/base/errors.h>
#include <cairn/base/git_lfs.h>
#include <cairn/base/memory/raw_bytes.h>
#include <cairn/codec/decompress.h>
#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace cairn::inline v0::ocdbt {
namespace {

enum : std::uint64_t { kNone = 0, kZstd = 1 };

}  // namespace

std::string_view object_name(ObjectKind kind) {
  switch (kind) {
    case ObjectKind::kManifest:
      return "manifest";
    case ObjectKind::kBtreeNode:
      return "b+tree node";
    case ObjectKind::kVersionNode:
      return "version tree node";
  }
  return "object";
}

std::optional<ObjectKind> sniff_object(ByteView encoded) {
  if (encoded.size() < 4) return std::nullopt;
  const std::uint32_t magic = ByteReader(encoded).u32_be();
  for (const auto kind : {ObjectKind::kManifest, ObjectKind::kBtreeNode, ObjectKind::kVersionNode})
    if (magic == static_cast<std::uint32_t>(kind)) return kind;
  return std::nullopt;
}

void check_before_reading(std::uint64_t length, const ReadObjectFn& read) {
  constexpr std::uint64_t kBlock = std::uint64_t{1} << 20U;
  if (length > kMaxEncodedSize)
    data_loss(fmt::format("an encoded object has {} bytes, expected at most {}", length,
                          kMaxEncodedSize));
  if (length < kCheckedFirst) return;
  Bytes block(kBlock);
  std::uint32_t actual = 0;
  for (std::uint64_t at = 0; at < length - 4; at += kBlock) {
    const MutableByteView part = MutableByteView(block).first(std::min(kBlock, length - 4 - at));
    read(at, part);
    if (at == 0) {
      ByteReader header(part);
      header.take(4);
      if (const auto stated = header.u64(); stated != length)
        data_loss(
            fmt::format("length in header ({}) does not match actual length ({})", stated, length));
    }
    actual = crc32c_extend(actual, part);
  }
  const MutableByteView tail = MutableByteView(block).first(4);
  read(length - 4, tail);
  if (const auto stored = ByteReader(tail).u32(); stored != actual)
    data_loss(
        fmt::format("CRC-32C checksum mismatch: stored {:08x}, actual {:08x}", stored, actual));
}

namespace {

// Verifies an object. Returns its body as stored, and whether that is compressed.
std::pair<ByteView, bool> check_object(ObjectKind kind, ByteView encoded) {
  if (encoded.size() < kMinEncodedSize)
    data_loss(fmt::format("{} bytes are too few for a {}, expected at least {}", encoded.size(),
                          object_name(kind), kMinEncodedSize));
  const ByteView sealed = encoded.first(encoded.size() - 4);
  ByteReader in(sealed);
  if (is_lfs_pointer(encoded)) data_loss(std::string(kIsLfsPointer));
  if (const auto magic = in.u32_be(); magic != static_cast<std::uint32_t>(kind))
    data_loss(fmt::format("a {} starts with the bytes {:08x}, found {:08x}", object_name(kind),
                          static_cast<std::uint32_t>(kind), magic));
  if (const auto length = in.u64(); length != encoded.size())
    data_loss(fmt::format("length in header ({}) does not match actual length ({})", length,
                          encoded.size()));
  // The checksum comes before all other fields. After it, a wrong field means a faulty writer, not
  // a faulty disk.
  const auto stored = ByteReader(encoded.last(4)).u32();
  if (const auto actual = crc32c(sealed); stored != actual)
    data_loss(
        fmt::format("CRC-32C checksum mismatch: stored {:08x}, actual {:08x}", stored, actual));
  if (const auto version = in.varint(0xffffffffU); version != 0)
    data_loss(fmt::format("format version {} is newer than the supported version 0", version));
  const auto compression = in.varint(0xffffffffU);
  if (compression > kZstd)
    data_loss(fmt::format("unsupported compression format {}: expected 0 (none) or 1 (zstd)",
                          compression));
  return {sealed.subspan(in.offset()), compression == kZstd};
}

Envelope decompressed(ByteView body) {
  const std::uint64_t likely =
      std::max<std::uint64_t>(kAlwaysAllowedBody, body.size() * std::uint64_t{1000});
  Envelope result{.storage = decompress_one_zstd_frame(body, std::min(likely, kMaxBodySize)),
                  .compressed = true};
  result.end = result.storage.size();
  return result;
}

}  // namespace

Envelope open_envelope(ObjectKind kind, RawBytes encoded) {
  const auto [body, compressed] = check_object(kind, encoded);
  if (compressed) return decompressed(body);
  const auto begin = static_cast<std::size_t>(body.data() - encoded.data());
  return {.storage = std::move(encoded), .begin = begin, .end = begin + body.size()};
}

Envelope open_envelope(ObjectKind kind, ByteView encoded) {
  const auto [body, compressed] = check_object(kind, encoded);
  if (compressed) return decompressed(body);
  return {.storage = RawBytes(body.begin(), body.end()), .end = body.size()};
}

Bytes seal_parts(ObjectKind kind, std::span<const ByteView> parts,
                 std::optional<std::int32_t> zstd_level) {
  std::uint64_t size = 0;
  for (const ByteView part : parts) size += part.size();
  if (zstd_level) {
    RawBytes joined;
    joined.reserve(size);
    for (const ByteView part : parts) joined.insert(joined.end(), part.begin(), part.end());
    return seal_envelope(kind, joined, zstd_level);
  }
  const std::uint64_t length = kMinEncodedSize + 2 + size;
  ByteWriter header;
  header.u32_be(static_cast<std::uint32_t>(kind)).u64(length).varint(0).varint(kNone);
  Bytes out;
  out.reserve(length);
  out.insert(out.end(), header.view().begin(), header.view().end());
  for (const ByteView part : parts) out.insert(out.end(), part.begin(), part.end());
  ByteWriter checksum;
  checksum.u32(crc32c(out));
  out.insert(out.end(), checksum.view().begin(), checksum.view().end());
  return out;
}

Bytes seal_envelope(ObjectKind kind, ByteView body, std::optional<std::int32_t> zstd_level) {
  if (!zstd_level) return seal_parts(kind, std::span(&body, 1), std::nullopt);
  const Bytes compressed = compress_zstd(body, *zstd_level, false);
  ByteWriter out;
  out.u32_be(static_cast<std::uint32_t>(kind)).u64(kMinEncodedSize + 2 + compressed.size());
  out.varint(0).varint(kZstd).bytes(compressed);
  out.u32(crc32c(out.view()));
  return std::move(out).take();
}

}  // namespace cairn::inline v0::ocdbt
