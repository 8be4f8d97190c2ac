// header.h -- the JSON at the front of a safetensors file, both directions.
//      0           8                 8 + n                              end
//      +-----------+-----------------+----------------------------------+
//      | n: u64 LE | JSON, n bytes   | tensors, one behind the other     |   no gaps, no overlaps,
//      nothing left over
//      +-----------+-----------------+----------------------------------+
//   JSON: {"__metadata__": {text: text}, name: {"dtype": "F32", "shape": [2, 3], "data_offsets":
//   [begin, end]}, ...} Offsets count from byte 8 + n. Values are little-endian and in C order; F4
//   packs two elements a byte, the first one in the low bits. Writers pad the JSON with spaces to a
//   multiple of 8.
// The checks are those of the reference (safetensors 0.8.0) and, where its parser is laxer than the
// written format, the format's: the JSON begins with '{', no name appears twice, a tensor is an
// object and its dtype a text.
#pragma once

#include <cairn/error.h>
#include <cairn/types.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cairn {

// An element type of the format. The table is in the reference's order, by which files are sorted
// (last one first).
struct SafetensorsType {
  std::string_view name;
  unsigned bits;
  std::optional<DType> dtype;  // none: a type that Cairn shows but cannot read (F6)
};
std::span<const SafetensorsType> safetensors_types();

inline constexpr std::uint64_t kSafetensorsPrefix = 8;
inline constexpr std::uint64_t kSafetensorsMaxHeader = 100'000'000;

struct SafetensorsEntry {
  std::string name;
  std::size_t type = 0;  // index into safetensors_types()
  Shape shape;
  std::uint64_t begin = 0, end = 0;
  bool operator==(const SafetensorsEntry&) const = default;
};
struct SafetensorsHeader {
  std::vector<std::pair<std::string, std::string>> metadata;
  std::vector<SafetensorsEntry> tensors;
  bool operator==(const SafetensorsHeader&) const = default;
};

// Telling files apart by their first 9 bytes (fewer if there are no more).
bool looks_like_safetensors(ByteView first);  // a plausible length and '{'
// '{' at once or after white space, and no safetensors file
bool looks_like_json_object(ByteView first);
// Length of the JSON, from the first 8 bytes of a file of `file_size` bytes.
std::uint64_t decode_safetensors_prefix(ByteView prefix, std::uint64_t file_size);
// Parses and checks the JSON of a file that holds `data_size` bytes behind it. Tensors come out
// sorted by name.
SafetensorsHeader decode_safetensors_header(ByteView json, std::uint64_t data_size);

// Bytes that a tensor takes in a file; nullopt if its bits do not fill whole bytes. Throws
// out_of_range on overflow.
std::optional<std::uint64_t> safetensors_nbytes(const SafetensorsType& type,
                                                std::span<const std::int64_t> shape);
// Length, JSON and padding, tensors in the order given. Throws invalid_argument for what a reader
// would refuse.
Bytes encode_safetensors_header(const SafetensorsHeader& header);

// The files that an index names, relative to its folder; never ones outside it.
std::vector<std::string> safetensors_index_files(const std::string& index);

}  // namespace cairn
