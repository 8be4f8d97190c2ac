// manifest.h -- the file that names everything else: configuration, newest versions, and where the
// older ones are.
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
// Kind 1: manifest.ocdbt holds the configuration alone, and the state is in the manifest.%016x with
// the highest number, which is its last generation and whose own kind is 0.
#pragma once

#include <cairn/bytes.h>
#include <cairn/ocdbt/format/version_tree.h>

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace cairn::ocdbt {

enum class ManifestKind : std::uint8_t { kSingle = 0, kNumbered = 1 };

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

struct Manifest {
  Config config;
  DataFileTable files;
  // by generation; the last is the newest. Empty if kind is numbered
  std::vector<Version> versions;
  std::vector<VersionNodeRef> version_nodes;  // by generation, so by descending height
  bool operator==(const Manifest&) const = default;
};

// Throws data_loss.
Manifest decode_manifest(Bytes encoded);
Bytes encode_manifest(const Manifest& manifest);

inline constexpr std::string_view kManifestKey = "manifest.ocdbt";
inline constexpr std::string_view kNumberedManifestPrefix = "manifest.";
std::string numbered_manifest_key(std::uint64_t generation);
// nullopt unless `key` is "manifest." and exactly 16 hex digits.
std::optional<std::uint64_t> numbered_manifest_generation(std::string_view key);

// Throws failed_precondition naming the first field in which the two differ, the manifest kind
// aside.
void check_same_config(const Config& expected, const Config& actual);

}  // namespace cairn::ocdbt
