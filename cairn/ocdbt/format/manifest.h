// manifest.h -- the file that leads to all other files of a database: its configuration, its newest
// versions, and references to the older ones.
//
// Body:
//      uuid                     16 bytes
//      manifest_kind            u8            0 single, 1 numbered
//      max_inline_value_bytes   varint32
//      max_decoded_node_bytes   varint32
//      version_tree_arity_log2  u8            1 .. 16
//      compression method       varint32      0 none, 1 zstd
//      zstd level               i32 LE        only if the method is 1; -131072 .. 22
//   kind 0 only:
//      data file table, versions, references to version nodes (version_tree.h)
// Kind 1: manifest.ocdbt holds only the configuration. The state is in the file manifest.%016x with
// the highest number. That number is the file's last generation, and the file itself has kind 0.
#pragma once

#include <cairn/bytes.h>
#include <cairn/ocdbt/format/version_tree.h>

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace cairn::inline v0::ocdbt {

// Whether one manifest file is replaced with every commit, or every commit adds a numbered one.
enum class ManifestKind : std::uint8_t { kSingle = 0, kNumbered = 1 };

// The configuration of a database. It is fixed when the database is created.
struct Config {
  std::array<std::uint8_t, 16> uuid{};
  ManifestKind manifest_kind = ManifestKind::kSingle;
  std::uint32_t max_inline_value_bytes = 100;
  std::uint32_t max_decoded_node_bytes = 8388608;  // 0: no limit
  std::uint8_t version_tree_arity_log2 = 4;
  std::optional<std::int32_t> zstd_level = 0;  // nullopt: no compression
  bool operator==(const Config&) const = default;

  [[nodiscard]] std::string uuid_text() const;  // 32 hex digits
};

// A decoded manifest.
struct Manifest {
  Config config;
  DataFileTable files;
  // by generation, the newest last; empty in the manifest.ocdbt of a numbered database
  std::vector<Version> versions;
  std::vector<VersionNodeRef> version_nodes;  // by generation, hence by descending height
  bool operator==(const Manifest&) const = default;
};

// Decodes a manifest. Throws data_loss.
Manifest decode_manifest(ByteView encoded);
// Encodes a manifest.
Bytes encode_manifest(const Manifest& manifest);

// Keys of the manifests, in the database's store.
inline constexpr std::string_view kManifestKey = "manifest.ocdbt";
inline constexpr std::string_view kNumberedManifestPrefix = "manifest.";
// Returns "manifest." and the generation as 16 hex digits.
std::string numbered_manifest_key(std::uint64_t generation);
// Returns the generation in a numbered manifest's key; nullopt unless `key` is "manifest." and
// exactly 16 hex digits.
std::optional<std::uint64_t> numbered_manifest_generation(std::string_view key);

// Throws failed_precondition that names the first field in which the two configurations differ.
// Ignores the manifest kind.
void check_same_config(const Config& expected, const Config& actual);

}  // namespace cairn::inline v0::ocdbt
