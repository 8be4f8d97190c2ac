// The version node codec and the arithmetic of generations.
#include <cairn/ocdbt/format/envelope.h>
#include <cairn/ocdbt/format/version_tree.h>
#include <gtest/gtest.h>

#include "tests/ocdbt/small_objects.h"

namespace cairn::ocdbt {
namespace {

using cairn::testing::check_codec;
using cairn::testing::FailsWith;
using cairn::testing::Guard;
using testing::BodyDamage;
using testing::check_body_damages;
using testing::check_spoilt;
using testing::small_version_interior;
using testing::small_version_leaf;
using testing::Spoilt;

const auto decode_node = testing::of_view<decode_version_node>;
const auto encode_node = [](const VersionNode& node) {
  return encode_version_node(node, std::nullopt);
};

TEST(VersionNode, RoundTripsAndNoticesDamage) {
  check_codec(small_version_leaf(), encode_node, decode_node, Guard::kChecksum);
  check_codec(small_version_interior(), encode_node, decode_node, Guard::kChecksum);
}

TEST(VersionNode, LeavesThatAreRefused) {
  const Spoilt<VersionNode> table[] = {
      {"arity 1", [](VersionNode& n) { n.arity_log2 = 0; },
       "expected version_tree_arity_log2 in range [1, 16] but received: 0"},
      {"arity 2^17", [](VersionNode& n) { n.arity_log2 = 17; }, "but received: 17"},
      {"no versions", [](VersionNode& n) { n.versions.clear(); },
       "num_children=0 outside valid range [1, 4]"},
      {"too many versions", [](VersionNode& n) { n.versions.resize(5); },
       "num_children=5 outside valid range [1, 4]"},
      {"generation 0", [](VersionNode& n) { n.versions[0].generation = 0; },
       "generation_number[0] must be non-zero"},
      {"same generation", [](VersionNode& n) { n.versions[1].generation = 5; },
       "generation_number[1]=5 <= generation_number[0]=5"},
      {"another block", [](VersionNode& n) { n.versions[0].generation = 4; },
       "generation range [4, 8] exceeds maximum of [5, 8]"},
      {"generation too high",
       [](VersionNode& n) { n.versions = {{.generation = (std::uint64_t{1} << 62U) + 5}}; },
       "exceeds maximum of"},
      {"same time", [](VersionNode& n) { n.versions[1].commit_time_ns = 100; },
       "commit_time[1]=100 <= commit_time[0]=100"},
      {"missing root with height", [](VersionNode& n) { n.versions[0].root_height = 1; },
       "non-zero root_height=1 for empty generation 5"},
      {"missing root with keys", [](VersionNode& n) { n.versions[0].statistics.num_keys = 1; },
       "non-zero statistics for empty generation"},
      {"half a missing root", [](VersionNode& n) { n.versions[0].root.length = 1; },
       "invalid offset/length pair of entry 0"},
      {"file id", [](VersionNode& n) { n.versions[0].root.file = 2; },
       "data file id 2 of entry 0 is outside range [0, 2)"},
      {"offset beyond 2^63",
       [](VersionNode& n) { n.versions[1].root.offset = std::uint64_t{1} << 63U; },
       "invalid offset/length pair"},
  };
  check_spoilt<VersionNode>(small_version_leaf(), table, encode_node, decode_node);
}

TEST(VersionNode, InteriorNodesThatAreRefused) {
  const Spoilt<VersionNode> table[] = {
      {"height", [](VersionNode& n) { n.height = 31; },
       "height=31 exceeds maximum of 30 for version_tree_arity_log2=2"},
      {"no children", [](VersionNode& n) { n.children.clear(); },
       "num_children=0 outside valid range [1, 4]"},
      {"too many children", [](VersionNode& n) { n.children.resize(5); },
       "num_children=5 exceeds maximum of 4"},
      {"no multiple", [](VersionNode& n) { n.children[0].generation = 84; },
       "generation_number[0]=84 is not a multiple of 16"},
      {"order", [](VersionNode& n) { n.children[1].generation = 80; },
       "generation_number[1]=80 <= generation_number[0]=80"},
      {"generation 0", [](VersionNode& n) { n.children[0].generation = 0; },
       "generation_number[0] must be non-zero"},
      {"another parent", [](VersionNode& n) { n.children[0].generation = 64; },
       "generation_number[0]=64 cannot be in the same node as"},
      {"time", [](VersionNode& n) { n.children[1].commit_time_ns = 99; },
       "commit_time[1]=99 <= commit_time[0]=100"},
      {"no generations", [](VersionNode& n) { n.children[0].num_generations = 0; },
       "num_generations[0]=0 for generation_number[0]=80"},
      {"too many generations", [](VersionNode& n) { n.children[0].num_generations = 17; },
       "is outside valid range [1, 16]"},
      {"missing node",
       [](VersionNode& n) {
         n.children[0].location = {0, DataRef::kMissing, DataRef::kMissing};
       },
       "invalid offset/length"},
  };
  check_spoilt<VersionNode>(small_version_interior(), table, encode_node, decode_node);
}

TEST(VersionNode, BodiesThatAreRefused) {
  const BodyDamage table[] = {
      {"one byte too many", [](Bytes& b) { b.push_back({}); },
       "end of data expected, 1 bytes are left over"},
      {"one byte too few", [](Bytes& b) { b.pop_back(); }, "unexpected end of data"},
      {"nothing", [](Bytes& b) { b.clear(); }, "unexpected end of data"},
      {"height 0 although interior", [](Bytes& b) { b[1] = {}; }, ""},
  };
  check_body_damages(ObjectKind::kVersionNode, encode_node(small_version_interior()), table,
                     decode_node);
}

TEST(VersionNode, MoreVersionsThanBytesAllocateNothing) {
  // arity 2^16, height 0, no files, 65535 versions
  Bytes body = testing::to_bytes(std::string_view("\x10\x00\x00\xff\xff\x03", 6));
  EXPECT_THAT([&] { decode_node(testing::sealed(ObjectKind::kVersionNode, body)); },
              FailsWith(Code::kDataLoss, "unexpected end of data: 65535 versions in 0 bytes"));
}

TEST(VersionTree, RangesOfAManifest) {
  using Ranges = std::vector<GenerationRange>;
  EXPECT_EQ(manifest_ranges(1, 1), Ranges{});
  EXPECT_EQ(manifest_ranges(2, 1), Ranges{});
  EXPECT_EQ(manifest_ranges(24, 1), (Ranges{{21, 22, 1}, {17, 20, 2}, {1, 16, 3}}));
  EXPECT_EQ(manifest_ranges(16, 4), Ranges{});
  EXPECT_EQ(manifest_ranges(17, 4), (Ranges{{1, 16, 1}}));
  EXPECT_EQ(manifest_ranges(300, 4), (Ranges{{257, 288, 1}, {1, 256, 2}}));
}

TEST(VersionTree, RangesCoverEverythingBeforeTheInlineBlock) {
  for (unsigned arity_log2 = 1; arity_log2 <= 16; ++arity_log2)
    for (const std::uint64_t g : {std::uint64_t{1}, std::uint64_t{77}, std::uint64_t{65537},
                                  (std::uint64_t{1} << 48U) + 3}) {
      std::uint64_t end = ((g - 1) >> arity_log2) << arity_log2;
      for (const auto& range : manifest_ranges(g, arity_log2)) {
        EXPECT_EQ(range.last, end);
        EXPECT_LE(range.first, range.last);
        end = range.first - 1;
      }
      EXPECT_EQ(end, 0U) << g;
    }
}

}  // namespace
}  // namespace cairn::ocdbt
