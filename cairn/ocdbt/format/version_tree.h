// version_tree.h -- the versions of a database, and the tree that old versions move into.
//
// A = 2^arity_log2. The manifest holds the newest 1 .. A versions inline. Full blocks of A older
// versions are leaf nodes (height 0), blocks of A^2 are interior nodes of height 1, and so on. The
// number of a generation alone determines its place. Body of a version node (by column, see
// data_files.h):
//      arity_log2 u8, height u8, data file table, then
//   height 0, and in the manifest: versions
//      num_versions     varint64   1
//      generation       varint64   n
//      root_height      u8         n
//      file id, offset, length of the root; num_keys, num_tree_bytes, num_indirect_value_bytes
//                       varint64   n
//      commit_time      u64 LE     n, nanoseconds since 1970
//   height > 0, and in the manifest: references to version nodes
//      count            varint64   1
//      generation       varint64   n, the last one below
//      file id, offset, length     varint64   n
//      num_generations  varint64   n
//      commit_time      u64 LE     n, of the earliest version below
//      height           u8         n, only in the manifest; else one less than this node's
// The root of an empty tree is missing: offset and length are 2^64 - 1.
#pragma once

#include <cairn/bytes.h>
#include <cairn/ocdbt/format/data_files.h>

#include <cstdint>
#include <optional>
#include <vector>

namespace cairn::inline v0::ocdbt {

inline constexpr unsigned kMaxArityLog2 = 16;

// One version: its number, its tree and its commit time.
struct Version {
  std::uint64_t generation = 1;
  std::uint8_t root_height = 0;
  DataRef root{.offset = DataRef::kMissing, .length = DataRef::kMissing};
  Statistics statistics;
  std::uint64_t commit_time_ns = 0;
  bool operator==(const Version&) const = default;
};

// The reference to a version node.
struct VersionNodeRef {
  std::uint64_t generation = 0;  // the last generation below
  DataRef location;
  std::uint64_t num_generations = 0;
  std::uint64_t commit_time_ns = 0;  // of the first version below
  std::uint8_t height = 0;           // of the referenced node
  bool operator==(const VersionNodeRef&) const = default;
};

// A decoded version node.
struct VersionNode {
  std::uint8_t arity_log2 = 4;
  std::uint8_t height = 0;
  DataFileTable files;
  std::vector<Version> versions;         // if height == 0
  std::vector<VersionNodeRef> children;  // if height > 0

  // Returns the last generation in or below the node.
  [[nodiscard]] std::uint64_t last_generation() const {
    return height == 0 ? versions.back().generation : children.back().generation;
  }
  bool operator==(const VersionNode&) const = default;
};

// Decodes a version node. Throws data_loss.
VersionNode decode_version_node(ByteView encoded);
// Encodes a version node; zstd_level nullopt: not compressed.
Bytes encode_version_node(const VersionNode& node, std::optional<std::int32_t> zstd_level);

// Reads the arity. Throws data_loss unless 1 <= arity_log2 <= 16.
std::uint8_t read_arity_log2(ByteReader& in);
// Decode and encode the lists as they also stand in a manifest. Reading verifies all rules of the
// lists and throws data_loss.
std::vector<Version> read_versions(ByteReader& in, std::size_t num_files, unsigned arity_log2);
void write_versions(ByteWriter& out, const std::vector<Version>& versions);
std::vector<VersionNodeRef> read_manifest_version_nodes(
    ByteReader& in, std::size_t num_files, unsigned arity_log2,
    const std::vector<Version>& inline_versions);
void write_manifest_version_nodes(ByteWriter& out, const std::vector<VersionNodeRef>& nodes);

// The generations [first, last] that the manifest's version node of `height` may have as its last
// generation.
struct GenerationRange {
  std::uint64_t first = 0;
  std::uint64_t last = 0;
  unsigned height = 0;
  bool operator==(const GenerationRange&) const = default;
};
// Returns the ranges by ascending height, given the manifest's last inline generation.
std::vector<GenerationRange> manifest_ranges(std::uint64_t last_generation, unsigned arity_log2);

}  // namespace cairn::inline v0::ocdbt
