// header.h -- the JSON at the front of a safetensors file, both directions.
//      0           8                 8 + n                              end
//      +-----------+-----------------+-----------------------------------+
//      | n: u64 LE | JSON, n bytes   | tensors, one after another        |   no gaps, no overlaps,
//      +-----------+-----------------+-----------------------------------+   nothing left over
//   JSON: {"__metadata__": {string: string},
//          name: {"dtype": "F32", "shape": [2, 3], "data_offsets": [begin, end]}, ...}
// Offsets count from byte 8 + n. Values are little-endian and in C order. F4 packs two elements a
// byte, the first one in the low bits. Writers pad the JSON with spaces to a multiple of 8.
// The checks are those of the reference (safetensors 0.8.0). Where its parser is laxer than the
// written format, the format decides: the JSON begins with '{', no name appears twice, a tensor is
// an object and its dtype a string.
#pragma once

#include <cairn/error.h>
#include <cairn/io/tree/file_tree.h>
#include <cairn/types.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cairn::inline v0 {

// An element type of the format. The table has the reference's order. Writers sort tensors by it,
// the last type first.
struct SafetensorsType {
  std::string_view name;
  unsigned bits;
  std::optional<DType> dtype;  // nullopt: a type that Cairn shows but cannot read (F6)
};
std::span<const SafetensorsType> safetensors_types();

inline constexpr std::uint64_t kSafetensorsPrefix = 8;
inline constexpr std::uint64_t kSafetensorsMaxHeader = 100'000'000;

// One tensor: its bytes are [begin, end) of the data.
struct SafetensorsEntry {
  std::string name;
  std::size_t type = 0;  // index into safetensors_types()
  Shape shape;
  std::uint64_t begin = 0, end = 0;
  bool operator==(const SafetensorsEntry&) const = default;
};
// The decoded JSON.
struct SafetensorsHeader {
  std::vector<std::pair<std::string, std::string>> metadata;
  std::vector<SafetensorsEntry> tensors;
  bool operator==(const SafetensorsHeader&) const = default;
};

// These tell files apart by their first 9 bytes (fewer if the file is shorter).
bool looks_like_safetensors(ByteView first);  // a plausible length, and '{' after any space
// '{', possibly after white space, and not a safetensors file
bool looks_like_json_object(ByteView first);
// Returns the length of the JSON, from the first 8 bytes of a file of `file_size` bytes. Throws
// data_loss if it cannot be right.
std::uint64_t decode_safetensors_prefix(ByteView prefix, std::uint64_t file_size);
// Parses and checks the JSON of a file that holds `data_size` bytes after it. Returns the tensors
// sorted by name. Throws data_loss for damage.
SafetensorsHeader decode_safetensors_header(ByteView json, std::uint64_t data_size);

// What is left of a header whose file is damaged.
struct SafetensorsRemains {
  SafetensorsHeader header;  // entries may lie beyond the end of the file
  std::uint64_t data_start = 0;
  // (name, reason) of entries that contradict themselves or other entries
  std::vector<std::pair<std::string, std::string>> refused;
};
// Decodes the header of a file of `size` bytes of which the end is missing, or whose length field
// is damaged; `first` are its first bytes, with the whole header. Throws data_loss if the JSON
// itself is damaged, because nothing else says where the tensors are.
SafetensorsRemains decode_safetensors_remains(ByteView first, std::uint64_t size);

// The bytes of a tensor in a file. Returns nullopt if its bits do not fill whole bytes. Throws
// out_of_range on overflow.
std::optional<std::uint64_t> safetensors_nbytes(const SafetensorsType& type,
                                                std::span<const std::int64_t> shape);
// Encodes the length, the JSON and the padding, with the tensors in the given order. Throws
// invalid_argument for anything that a reader would refuse.
Bytes encode_safetensors_header(const SafetensorsHeader& header);

// The files that an index names, relative to the index's folder. Files outside that folder are
// refused.
std::vector<std::string> safetensors_index_files(const FileTree& tree, const std::string& index);
// The same for the text of an index.
std::vector<std::string> safetensors_index_files(std::string_view text);

}  // namespace cairn::inline v0
