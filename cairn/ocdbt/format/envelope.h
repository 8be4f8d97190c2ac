// envelope.h -- what surrounds every encoded object of an OCDBT database: manifest, B+tree node,
// version-tree node.
//      0         4          12        ...           ...                     size-4     size
//      +---------+----------+---------+-------------+-----------------------+----------+
//      | magic   | length   | version | compression | body                  | checksum |
//      | u32 BE  | u64 LE   | varint  | varint      | raw, or one zstd frame| u32 LE   |
//      +---------+----------+---------+-------------+-----------------------+----------+
// length is that of the whole object; version is 0; compression is 0 (none) or 1 (zstd); the
// checksum is the CRC-32C of every byte before it, so of the compressed body.
#pragma once

#include <cairn/bytes.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>

namespace cairn::ocdbt {

enum class ObjectKind : std::uint32_t {  // the magic numbers: DO NOT CHANGE
  kManifest = 0x0cdb3a2a,
  kBtreeNode = 0x0cdb20de,
  kVersionNode = 0x0cdb1234,
};
// "manifest", "b+tree node", "version tree node".
std::string_view object_name(ObjectKind kind);

inline constexpr std::size_t kMinEncodedSize = 16;
// Decoded bodies are refused beyond this, and beyond kAlwaysAllowedBody if they are a thousand
// times their encoding: a few kilobytes of a hostile frame must not fill the memory. TensorStore's
// own target for a node is 8 MB, Orbax's 100 MB.
inline constexpr std::uint64_t kMaxBodySize = std::uint64_t{1} << 31U;
inline constexpr std::uint64_t kAlwaysAllowedBody = std::uint64_t{1} << 26U;
// Encoded objects are refused beyond this. From kCheckedFirst on their header and checksum are
// checked before memory is taken.
inline constexpr std::uint64_t kMaxEncodedSize = std::uint64_t{1} << 28U;
inline constexpr std::uint64_t kCheckedFirst = std::uint64_t{1} << 24U;

// An opened object: bytes [begin, end) of `storage` are its decompressed body.
struct Envelope {
  Bytes storage;
  std::size_t begin = 0;
  std::size_t end = 0;
  bool compressed = false;

  [[nodiscard]] ByteView body() const { return ByteView(storage).subspan(begin, end - begin); }
};

// The kind that the first bytes claim; nullopt for none of them.
std::optional<ObjectKind> sniff_object(ByteView encoded);
// Reads bytes of an encoded object from `offset` in it on.
using ReadObjectFn = std::function<void(std::uint64_t offset, MutableByteView out)>;
// To be called with the length of an object before it is read: data_loss for one that no writer
// makes, and for a large one whose header or checksum is wrong. Reads nothing of a small one.
void check_before_reading(std::uint64_t length, const ReadObjectFn& read);
// Checks everything around the body and decompresses it. A raw body is not copied.
Envelope open_envelope(ObjectKind kind, Bytes encoded);
// nullopt: not compressed. Level 0 is zstd's default.
Bytes seal_envelope(ObjectKind kind, ByteView body, std::optional<std::int32_t> zstd_level);

}  // namespace cairn::ocdbt
