// manifest.cc -- the codec of manifests, and the names of numbered manifests.
#include <cairn/ocdbt/format/manifest.h>

#include <cairn/base/errors.h>
#include <cairn/ocdbt/format/envelope.h>
#include <fmt/format.h>

#include <charconv>

namespace cairn::inline v0::ocdbt {
namespace {

constexpr std::int32_t kMinZstdLevel = -131072;
constexpr std::int32_t kMaxZstdLevel = 22;

std::optional<std::int32_t> read_compression(ByteReader& in) {
  const std::uint64_t method = in.varint(0xffffffffU);
  if (method == 0) return std::nullopt;
  if (method != 1)
    data_loss(fmt::format("compression method {} is outside valid range [0, 1]", method));
  const std::int32_t level = in.i32();
  if (level < kMinZstdLevel || level > kMaxZstdLevel)
    data_loss(fmt::format("zstd level {} is outside valid range [{}, {}]", level, kMinZstdLevel,
                          kMaxZstdLevel));
  return level;
}

Config read_config(ByteReader& in) {
  Config config;
  for (auto& byte : config.uuid) byte = in.u8();
  const unsigned kind = in.u8();
  if (kind > 1)
    data_loss(fmt::format("invalid manifest_kind {}: expected 0 (single) or 1 (numbered)", kind));
  config.manifest_kind = static_cast<ManifestKind>(kind);
  config.max_inline_value_bytes = static_cast<std::uint32_t>(in.varint(0xffffffffU));
  config.max_decoded_node_bytes = static_cast<std::uint32_t>(in.varint(0xffffffffU));
  config.version_tree_arity_log2 = read_arity_log2(in);
  config.zstd_level = read_compression(in);
  return config;
}

void write_config(ByteWriter& out, const Config& config) {
  for (const auto byte : config.uuid) out.u8(byte);
  out.u8(static_cast<std::uint8_t>(config.manifest_kind));
  out.varint(config.max_inline_value_bytes).varint(config.max_decoded_node_bytes);
  out.u8(config.version_tree_arity_log2).varint(config.zstd_level ? 1 : 0);
  if (config.zstd_level) out.i32(*config.zstd_level);
}

std::string compression_text(const std::optional<std::int32_t>& level) {
  return level ? fmt::format("zstd level {}", *level) : "none";
}

}  // namespace

std::string Config::uuid_text() const {
  std::string text;
  for (const auto byte : uuid) text += fmt::format("{:02x}", byte);
  return text;
}

Manifest decode_manifest(ByteView encoded) {
  const Envelope envelope = open_envelope(ObjectKind::kManifest, encoded);
  ByteReader in(envelope.body());
  Manifest manifest;
  manifest.config = read_config(in);
  if (manifest.config.manifest_kind == ManifestKind::kSingle) {
    const unsigned arity_log2 = manifest.config.version_tree_arity_log2;
    manifest.files = read_data_files(in);
    manifest.versions = read_versions(in, manifest.files.size(), arity_log2);
    manifest.version_nodes =
        read_manifest_version_nodes(in, manifest.files.size(), arity_log2, manifest.versions);
  }
  in.finish();
  return manifest;
}

Bytes encode_manifest(const Manifest& manifest) {
  ByteWriter out;
  write_config(out, manifest.config);
  if (manifest.config.manifest_kind == ManifestKind::kSingle) {
    write_data_files(out, manifest.files);
    write_versions(out, manifest.versions);
    write_manifest_version_nodes(out, manifest.version_nodes);
  }
  return seal_envelope(ObjectKind::kManifest, out.view(), manifest.config.zstd_level);
}

std::string numbered_manifest_key(std::uint64_t generation) {
  return fmt::format("{}{:016x}", kNumberedManifestPrefix, generation);
}

std::optional<std::uint64_t> numbered_manifest_generation(std::string_view key) {
  if (!key.starts_with(kNumberedManifestPrefix)) return std::nullopt;
  const std::string_view digits = key.substr(kNumberedManifestPrefix.size());
  if (digits.size() != 16) return std::nullopt;
  std::uint64_t generation = 0;
  const auto parsed = std::from_chars(digits.data(), digits.data() + digits.size(), generation, 16);
  // Encode the generation again, so that a sign or an upper-case digit does not give a second name
  // to one generation.
  if (parsed.ec != std::errc{} || numbered_manifest_key(generation) != key) return std::nullopt;
  return generation;
}

void check_same_config(const Config& expected, const Config& actual) {
  const auto refuse = [](std::string_view field, const auto& want, const auto& have) {
    throw Error(Code::kFailedPrecondition,
                fmt::format("configuration mismatch on {}: {} has {}, found {}", field,
                            kManifestKey, want, have));
  };
  if (expected.uuid != actual.uuid) refuse("uuid", expected.uuid_text(), actual.uuid_text());
  if (expected.max_inline_value_bytes != actual.max_inline_value_bytes)
    refuse("max_inline_value_bytes", expected.max_inline_value_bytes,
           actual.max_inline_value_bytes);
  if (expected.max_decoded_node_bytes != actual.max_decoded_node_bytes)
    refuse("max_decoded_node_bytes", expected.max_decoded_node_bytes,
           actual.max_decoded_node_bytes);
  if (expected.version_tree_arity_log2 != actual.version_tree_arity_log2)
    refuse("version_tree_arity_log2", expected.version_tree_arity_log2,
           actual.version_tree_arity_log2);
  if (expected.zstd_level != actual.zstd_level)
    refuse("compression", compression_text(expected.zstd_level),
           compression_text(actual.zstd_level));
}

}  // namespace cairn::inline v0::ocdbt
