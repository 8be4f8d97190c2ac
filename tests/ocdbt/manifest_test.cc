// The manifest codec, and the names of numbered manifests.
#include <cairn/ocdbt/format/envelope.h>
#include <cairn/ocdbt/format/manifest.h>
#include <gtest/gtest.h>

#include "tests/ocdbt/small_objects.h"

namespace cairn::ocdbt {
namespace {

using cairn::testing::check_codec;
using cairn::testing::FailsWith;
using cairn::testing::Guard;
using testing::BodyDamage;
using testing::check_body_damages;
using testing::small_manifest;

const auto decode_view = testing::of_view<decode_manifest>;

TEST(Manifest, RoundTripsAndNoticesDamage) {
  for (const std::optional<std::int32_t> level :
       {std::optional<std::int32_t>(), {0}, {22}, {-131072}}) {
    Manifest m = small_manifest();
    m.config.zstd_level = level;
    check_codec(m, encode_manifest, decode_view, Guard::kChecksum);
  }
  Manifest numbered;
  numbered.config = small_manifest().config;
  numbered.config.manifest_kind = ManifestKind::kNumbered;
  check_codec(numbered, encode_manifest, decode_view, Guard::kChecksum);
}

// A manifest that TensorStore wrote.
TEST(Manifest, HasTheDocumentedBytes) {
  Manifest m;
  m.config.uuid = small_manifest().config.uuid;
  m.config.max_inline_value_bytes = 8;
  m.config.zstd_level = std::nullopt;
  m.files = {{"", ""}, {"", std::string(testing::kDocumentedFile)}};
  m.versions = {{.generation = 1, .commit_time_ns = 0x18e9d67d6195bd0e},
                {.generation = 2,
                 .root = {1, 22, 87},
                 .statistics = {3, 87, 22},
                 .commit_time_ns = 0x18e9d67d61e459e8}};
  using namespace std::string_literals;
  const std::string expected =
      "\x0c\xdb\x3a\x2a\x86\0\0\0\0\0\0\0\0\0"s +
      "\0\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b\x0c\x0d\x0e\x0f"s +
      "\0\x08\x80\x80\x80\x04\x04\0\x02\0\0\x22\0\0"s + "d/9c53ae1a097293cc1a18b14f825e1874" +
      "\x02\x01\x02\0\0\0\x01"s +
      "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x16\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x57\0\x03\0\x57\0\x16"s +
      "\x0e\xbd\x95\x61\x7d\xd6\xe9\x18\xe8\x59\xe4\x61\x7d\xd6\xe9\x18\0\xcd\xc1\x3c\x47"s;
  EXPECT_EQ(as_text(encode_manifest(m)), expected);
  EXPECT_EQ(decode_view(as_bytes(expected)), m);
}

TEST(Manifest, ConfigsThatAreRefused) {
  Manifest m = small_manifest();
  m.config.max_decoded_node_bytes = 5;
  m.config.zstd_level = std::nullopt;
  // 0 uuid; 16 kind; 17 inline limit (1 byte); 18 node limit (1 byte); 19 arity; 20 method; 21
  // files ...
  const auto with_level = [](std::int32_t level) {
    return [level](Bytes& b) {
      b[20] = std::byte{1};
      testing::insert_at(b, 21, ByteView(reinterpret_cast<const std::byte*>(&level), 4));
    };
  };
  const BodyDamage table[] = {
      {"kind 2", [](Bytes& b) { b[16] = std::byte{2}; }, "invalid manifest_kind 2"},
      {"arity 0", [](Bytes& b) { b[19] = std::byte{0}; },
       "expected version_tree_arity_log2 in range [1, 16] but received: 0"},
      {"arity 17", [](Bytes& b) { b[19] = std::byte{17}; }, "but received: 17"},
      {"method 2", [](Bytes& b) { b[20] = std::byte{2}; },
       "compression method 2 is outside valid range [0, 1]"},
      {"level 23", with_level(23), "zstd level 23 is outside valid range [-131072, 22]"},
      {"level -131073", with_level(-131073), "zstd level -131073 is outside valid range"},
      {"inline limit of 33 bits",
       [](Bytes& b) {
         testing::erase_at(b, 17, 1);
         testing::insert_at(b, 17, testing::to_bytes("\x80\x80\x80\x80\x10"));
       },
       "varint 4294967296 exceeds 4294967295"},
      {"numbered, but with versions", [](Bytes& b) { b[16] = std::byte{1}; },
       "end of data expected"},
      {"one byte too many", [](Bytes& b) { b.push_back({}); },
       "end of data expected, 1 bytes are left over"},
      {"one byte too few", [](Bytes& b) { b.pop_back(); }, "unexpected end of data"},
      {"half a uuid", [](Bytes& b) { b.resize(8); }, "unexpected end of data"},
  };
  check_body_damages(ObjectKind::kManifest, encode_manifest(m), table, decode_view);
}

TEST(Manifest, VersionListsThatAreRefused) {
  const testing::Spoilt<Manifest> table[] = {
      {"no versions", [](Manifest& m) { m.versions.clear(); },
       "num_children=0 outside valid range [1, 2]"},
      {"too many versions", [](Manifest& m) { m.versions.resize(3); },
       "num_children=3 outside valid range [1, 2]"},
      {"height 0", [](Manifest& m) { m.version_nodes[2].height = 0; },
       "entry_height[2]=0 outside valid range [1, 62]"},
      {"height 63", [](Manifest& m) { m.version_nodes[0].height = 63; },
       "entry_height[0]=63 outside valid range [1, 62]"},
      {"heights rise", [](Manifest& m) { m.version_nodes[1].height = 3; },
       "entry_height[1]=3 >= entry_height[0]=3"},
      {"height without a range", [](Manifest& m) { m.version_nodes[0].height = 4; },
       "unexpected child with generation_number[0]=16"},
      {"generation within a block", [](Manifest& m) { m.version_nodes[1].generation = 18; },
       "generation_number[1]=18 is not a multiple of 4"},
      {"generation of another range", [](Manifest& m) { m.version_nodes[2].generation = 24; },
       "generation_number[2]=24 is outside expected range [21, 22] for height 1"},
      {"generations fall", [](Manifest& m) { m.version_nodes[0].generation = 24; },
       "generation_number[1]=20 <= generation_number[0]=24"},
      {"generation 0", [](Manifest& m) { m.version_nodes[0].generation = 0; },
       "generation_number[0] must be non-zero"},
      {"times fall", [](Manifest& m) { m.version_nodes[1].commit_time_ns = 1; },
       "commit_time[1]=1 <= commit_time[0]=1"},
      {"node as late as an inline version",
       [](Manifest& m) { m.version_nodes[2].commit_time_ns = 1000; },
       "commit_time of first inline version 1000 <= commit_time[2]=1000"},
      {"too many generations", [](Manifest& m) { m.version_nodes[2].num_generations = 3; },
       "num_generations[2]=3 for generation_number[2]=22"},
      {"no generations", [](Manifest& m) { m.version_nodes[2].num_generations = 0; },
       "num_generations[2]=0 for generation_number[2]=22"},
      {"file id", [](Manifest& m) { m.version_nodes[2].location.file = 2; },
       "data file id 2 of entry 2 is outside range [0, 2)"},
  };
  testing::check_spoilt<Manifest>(small_manifest(), table, encode_manifest, decode_view);
}

TEST(Manifest, HeightsAndHistoryMayBeAbsent) {
  Manifest m = small_manifest();
  m.version_nodes.erase(m.version_nodes.begin() + 1);
  EXPECT_EQ(decode_view(encode_manifest(m)), m);
  m.version_nodes.clear();
  EXPECT_EQ(decode_view(encode_manifest(m)), m);
}

TEST(NumberedManifest, Names) {
  EXPECT_EQ(numbered_manifest_key(0x2a), "manifest.000000000000002a");
  EXPECT_EQ(numbered_manifest_generation("manifest.000000000000002a"), 0x2aU);
  EXPECT_EQ(numbered_manifest_generation("manifest.7fffffffffffffff"), 0x7fffffffffffffffU);
  for (const char* other :
       {"manifest.ocdbt", "manifest.", "manifest.2a", "manifest.000000000000002g",
        "manifest.0000000000000002a", "manifest.-00000000000002a", "other.000000000000002a",
        "manifest.000000000000002a.__lock"})
    EXPECT_EQ(numbered_manifest_generation(other), std::nullopt) << other;
}

TEST(Config, DifferencesAreNamed) {
  const Config config = small_manifest().config;
  EXPECT_NO_THROW(check_same_config(config, config));
  const struct {
    std::function<void(Config&)> change;
    const char* expect;
  } table[] = {
      {[](Config& c) { c.uuid[0] = 9; }, "configuration mismatch on uuid"},
      {[](Config& c) { c.max_inline_value_bytes = 9; },
       "configuration mismatch on max_inline_value_bytes: manifest.ocdbt has 100, found 9"},
      {[](Config& c) { c.max_decoded_node_bytes = 9; },
       "configuration mismatch on max_decoded_node_bytes"},
      {[](Config& c) { c.version_tree_arity_log2 = 9; },
       "configuration mismatch on version_tree_arity_log2"},
      {[](Config& c) { c.zstd_level = 9; },
       "configuration mismatch on compression: manifest.ocdbt has none, found zstd level 9"},
  };
  for (const auto& row : table) {
    Config other = config;
    row.change(other);
    EXPECT_THAT([&] { check_same_config(config, other); },
                FailsWith(Code::kFailedPrecondition, row.expect));
  }
}

}  // namespace
}  // namespace cairn::ocdbt
