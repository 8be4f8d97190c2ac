// envelope.h -- the header and trailer of every encoded object of an OCDBT database: manifest,
// B+tree node, version-tree node.
//      0         4          12        ...           ...                     size-4     size
//      +---------+----------+---------+-------------+-----------------------+----------+
//      | magic   | length   | version | compression | body                  | checksum |
//      | u32 BE  | u64 LE   | varint  | varint      | raw, or one zstd frame| u32 LE   |
//      +---------+----------+---------+-------------+-----------------------+----------+
// length is the length of the whole object; version is 0; compression is 0 (none) or 1 (zstd).
// checksum is the CRC-32C of all bytes before it, and so covers the compressed body.
#pragma once

#include <cairn/base/memory/raw_bytes.h>
#include <cairn/bytes.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string_view>

namespace cairn::inline v0::ocdbt {

// The kinds of objects.
enum class ObjectKind : std::uint32_t {  // the magic numbers: DO NOT CHANGE
  kManifest = 0x0cdb3a2a,
  kBtreeNode = 0x0cdb20de,
  kVersionNode = 0x0cdb1234,
};
// Returns "manifest", "b+tree node" or "version tree node".
std::string_view object_name(ObjectKind kind);

// No encoded object is smaller, in bytes.
inline constexpr std::size_t kMinEncodedSize = 16;
// Larger decoded bodies are refused, as are bodies beyond kAlwaysAllowedBody that are more than a
// thousand times their encoded size: a hostile frame of a few kilobytes must not fill the memory.
// For comparison, TensorStore's default target for a node is 8 MB, Orbax's 100 MB.
inline constexpr std::uint64_t kMaxBodySize = std::uint64_t{1} << 31U;
inline constexpr std::uint64_t kAlwaysAllowedBody = std::uint64_t{1} << 26U;
// Larger encoded objects are refused. For objects of kCheckedFirst bytes and more, the header and
// checksum are verified before memory is allocated.
inline constexpr std::uint64_t kMaxEncodedSize = std::uint64_t{1} << 28U;
inline constexpr std::uint64_t kCheckedFirst = std::uint64_t{1} << 24U;

// An opened object. Bytes [begin, end) of `storage` are its decompressed body.
struct Envelope {
  RawBytes storage;
  std::size_t begin = 0;
  std::size_t end = 0;
  bool compressed = false;

  [[nodiscard]] ByteView body() const { return ByteView(storage).subspan(begin, end - begin); }
};

// Returns the kind that the magic number states; nullopt for an unknown one.
std::optional<ObjectKind> sniff_object(ByteView encoded);
// Reads bytes of an encoded object, starting at `offset` in the object.
using ReadObjectFn = std::function<void(std::uint64_t offset, MutableByteView out)>;
// Call this with the length of an object before reading it. Throws data_loss for a length that no
// writer produces, and for a large object whose header or checksum is wrong. Reads nothing of a
// small object.
void check_before_reading(std::uint64_t length, const ReadObjectFn& read);
// Verifies header and trailer and decompresses the body. Throws data_loss. The first form does not
// copy a raw body.
Envelope open_envelope(ObjectKind kind, RawBytes encoded);
Envelope open_envelope(ObjectKind kind, ByteView encoded);
// Encodes an object around `body`. zstd_level nullopt: not compressed; 0: zstd's default level.
Bytes seal_envelope(ObjectKind kind, ByteView body, std::optional<std::int32_t> zstd_level);
// The same for a body in several parts.
Bytes seal_parts(ObjectKind kind, std::span<const ByteView> parts,
                 std::optional<std::int32_t> zstd_level);

}  // namespace cairn::inline v0::ocdbt
