// The B+tree node codec, and search among its keys.
#include <cairn/ocdbt/format/btree.h>
#include <cairn/ocdbt/format/envelope.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>

#include "tests/ocdbt/small_objects.h"

namespace cairn::ocdbt {
namespace {

using cairn::testing::check_codec;
using cairn::testing::FailsWith;
using cairn::testing::Guard;
using testing::BodyDamage;
using testing::check_body_damages;
using testing::erase_at;
using testing::insert_at;
using testing::small_interior;
using testing::small_leaf;
using testing::to_bytes;

const auto decode = [](ByteView bytes) {
  return decode_btree_node(RawBytes(bytes.begin(), bytes.end()));
};

TEST(BtreeNode, RoundTripsAndNoticesDamage) {
  for (const BtreeNode& node : {small_leaf(), small_interior()})
    for (const std::optional<std::int32_t> level :
         {std::optional<std::int32_t>(), std::optional<std::int32_t>(3)})
      check_codec(
          node, [&](const BtreeNode& n) { return encode_btree_node(n, level); }, decode,
          Guard::kChecksum);
}

// A leaf that TensorStore wrote.
TEST(BtreeNode, HasTheDocumentedBytes) {
  BtreeNode node;
  node.files = {{"", std::string(testing::kDocumentedFile)}};
  node.add_inline("a/.zarray", as_bytes("{}"));
  node.add_out_of_line("a/0.0", {0, 0, 10});
  node.add_out_of_line("a/0.1", {0, 10, 12});
  using namespace std::string_literals;
  const std::string expected = "\x0c\xdb\x20\xde\x57\0\0\0\0\0\0\0\0\0"s + "\0\x01\x22\0"s +
                               "d/9c53ae1a097293cc1a18b14f825e1874" + "\x03\x02\x04\x09\x03\x01"s +
                               "a/.zarray0.01" +
                               "\x02\x0a\x0c\0\x01\x01\0\0\0\x0a{}\x5a\xf5\xcc\x9f"s;
  EXPECT_EQ(as_text(encode_btree_node(node, std::nullopt)), expected);
}

// Byte 13 of an object says whether its body is compressed.
bool is_compressed(const Bytes& encoded) { return encoded[13] == std::byte{1}; }

// zstd takes long for values that are noise, and gains nothing.
TEST(BtreeNode, LargeValuesAreCompressedOnlyIfTheyShrink) {
  constexpr std::size_t kValue = 1024;
  const auto leaf = [&](std::size_t values, bool noise) {
    std::mt19937 random(7);
    BtreeNode node;
    for (std::size_t i = 0; i < values; ++i) {
      Bytes value(kValue);
      if (noise) std::generate(value.begin(), value.end(), [&] { return std::byte(random()); });
      std::string name = std::to_string(i);
      name.insert(0, 6 - name.size(), '0');
      node.add_inline(name + "/.zarray", as_bytes("{\"chunks\": [256], \"zarr_format\": 2}"));
      node.add_inline(name + "/0", value);
    }
    return node;
  };
  for (const bool noise : {false, true})
    for (const std::size_t values : {10U, 600U}) {
      const BtreeNode node = leaf(values, noise);
      const Bytes encoded = encode_btree_node(node, 0);
      EXPECT_EQ(is_compressed(encoded), !noise || values == 10) << values;
      EXPECT_EQ(decode(encoded), node);
      EXPECT_FALSE(is_compressed(encode_btree_node(node, std::nullopt)));
    }
}

TEST(KeyList, FindsKeysWhateverTheHint) {
  KeyList keys;
  for (const char* key : {"a", "b/.zarray", "b/0", "c", "d"}) keys.push_back(key);
  for (std::size_t near = 0; near <= keys.size(); ++near) {
    for (std::size_t i = 0; i < keys.size(); ++i) EXPECT_EQ(keys.find(keys[i], near), i);
    for (const char* absent : {"", "A", "b", "b/1", "e"})
      EXPECT_EQ(keys.find(absent, near), keys.size()) << absent;
  }
  EXPECT_EQ(keys.find("a", std::size_t{0} - 1), 0U);
  EXPECT_EQ(KeyList().find("a", 0), 0U);
}

// Offsets of small_leaf()'s body: 0 height; 1 two files; 2 prefix; 3 suffixes 3, 6; 5 bases 0, 2; 7
// "d/x"; 10 "p/d/y" ...
TEST(BtreeNode, LeafBodiesThatAreRefused) {
  const Bytes good = encode_btree_node(small_leaf(), std::nullopt);
  const std::size_t n = 15;  // where num_entries stands
  const BodyDamage table[] = {
      {"no entries", [&](Bytes& b) { b[n] = std::byte{0}; }, "empty b-tree node"},
      {"more entries than bytes", [&](Bytes& b) { b[n] = std::byte{100}; },
       "unexpected end of data: 100 entries"},
      {"more entries than a node may have",
       [&](Bytes& b) {
         erase_at(b, n, 1);
         insert_at(b, n, to_bytes("\x81\x80\x40"));
       },
       "arity 1048577, which exceeds limit of 1048576"},
      {"key prefix beyond the key before", [&](Bytes& b) { b[n + 1] = std::byte{3}; },
       "key 1: prefix length 3 exceeds the 2 bytes"},
      {"key length of 17 bits",
       [&](Bytes& b) {
         erase_at(b, n + 3, 1);
         insert_at(b, n + 3, to_bytes("\x82\x80\x04"));
       },
       "varint 65538 exceeds 65535"},
      {"keys out of order", [&](Bytes& b) { b[n + 6] = std::byte{'z'}; },
       "invalid key order: key 2 is not greater than key 1 'zbc'"},
      {"value kind 2", [&](Bytes& b) { b[n + 14] = std::byte{2}; },
       "value_kind[1]=2 is outside valid range [0, 1]"},
      {"file that is not in the table", [&](Bytes& b) { b[n + 16] = std::byte{2}; },
       "data file id 2 of entry 1 is outside range [0, 2)"},
      {"one byte too many", [&](Bytes& b) { b.push_back(std::byte{0}); },
       "end of data expected, 1 bytes are left over"},
      {"one byte too few", [&](Bytes& b) { b.pop_back(); }, "unexpected end of data"},
      {"nothing at all", [&](Bytes& b) { b.clear(); }, "unexpected end of data"},
  };
  check_body_damages(ObjectKind::kBtreeNode, good, table, decode);
}

TEST(BtreeNode, InteriorBodiesThatAreRefused) {
  const Bytes good = encode_btree_node(small_interior(), std::nullopt);
  const std::size_t n = 7;
  const BodyDamage table[] = {
      {"common prefix longer than its key", [&](Bytes& b) { b[n + 4] = std::byte{3}; },
       "key 0: subtree common prefix length 3 exceeds"},
      {"file that is not in the table", [&](Bytes& b) { b[n + 10] = std::byte{7}; },
       "data file id 7 of entry 1 is outside range [0, 1)"},
      {"one byte too many", [&](Bytes& b) { b.push_back(std::byte{0}); }, "end of data expected"},
      {"height 0 although interior", [&](Bytes& b) { b[0] = std::byte{0}; },
       "unexpected end of data"},
  };
  check_body_damages(ObjectKind::kBtreeNode, good, table, decode);
}

TEST(BtreeNode, LimitsOfLengths) {
  BtreeNode node;
  node.files = testing::one_file();
  node.add_out_of_line(std::string(65535, 'k'),
                       {0, (std::uint64_t{1} << 62U), (std::uint64_t{1} << 62U) - 1});
  EXPECT_EQ(decode(encode_btree_node(node, 3)), node);

  BtreeNode overflow = node;
  overflow.values[0].length += 1;
  EXPECT_THAT([&] { decode(encode_btree_node(overflow, 3)); },
              FailsWith(Code::kDataLoss, "invalid offset/length pair of entry 0"));
  BtreeNode missing = node;
  missing.values[0].offset = missing.values[0].length = DataRef::kMissing;
  EXPECT_THAT([&] { decode(encode_btree_node(missing, 3)); },
              FailsWith(Code::kDataLoss, "invalid offset/length pair"));

  BtreeNode big;
  const Bytes most(kMaxInlineValue);
  big.add_inline("k", most);
  EXPECT_EQ(decode(encode_btree_node(big, 1)), big);
  BtreeNode bigger;
  bigger.add_inline("k", Bytes(kMaxInlineValue + 1));
  EXPECT_THAT([&] { decode(encode_btree_node(bigger, 1)); },
              FailsWith(Code::kDataLoss, "value_length[0]=1048577 exceeds maximum of 1048576"));

  // Two lengths of 16 bits each whose sum is none.
  BtreeNode long_keys;
  long_keys.add_inline(std::string(65535, 'k'), {});
  long_keys.add_inline(std::string(65535, 'k') + "x", {});
  EXPECT_THAT([&] { decode(encode_btree_node(long_keys, 1)); },
              FailsWith(Code::kDataLoss, "key 1: key length 65536 exceeds limit"));
}

TEST(BtreeNode, KeysThatShareFarTooMuchAreRefused) {
  BtreeNode node;
  const std::string most(16000, 'k');
  for (int i = 1000; i < 3300; ++i) node.add_inline(most + std::to_string(i), {});
  EXPECT_THAT([&] { decode(encode_btree_node(node, 1)); },
              FailsWith(Code::kUnimplemented, "which exceeds the expansion that Cairn allows"));
}

// 4800 keys of 64,000 bytes are less than 1024 times the node, but more than Cairn holds.
TEST(BtreeNode, KeysHaveABudget) {
  BtreeNode node;
  const std::string most(64000, 'k');
  const std::string value(100, 'v');
  for (int i = 1000; i < 5800; ++i) node.add_inline(most + std::to_string(i), as_bytes(value));
  EXPECT_THAT([&] { decode(encode_btree_node(node, std::nullopt)); },
              FailsWith(Code::kUnimplemented, "bytes of memory, the limit of Cairn"));
}

TEST(BtreeNode, OverlongVarintsAndShortPrefixesAreAccepted) {
  const Bytes good = encode_btree_node(small_leaf(), std::nullopt);
  Bytes body = testing::body_of(good);
  body[15] = std::byte{0x83};  // num_entries 3 in five bytes
  insert_at(body, 16, ByteView(to_bytes(std::string_view("\x80\x80\x80\x00", 4))));
  EXPECT_EQ(decode(testing::sealed(ObjectKind::kBtreeNode, body)), small_leaf());
  insert_at(body, 16, ByteView(to_bytes("\x80")));  // in six
  EXPECT_THAT([&] { decode(testing::sealed(ObjectKind::kBtreeNode, body)); },
              FailsWith(Code::kDataLoss, "varint is too long"));
}

TEST(KeyList, FindsBounds) {
  KeyList keys;
  for (const char* key : {"a", "ab", "abc", "b", "ba"}) keys.push_back(key);
  EXPECT_EQ(keys.lower_bound(""), 0U);
  EXPECT_EQ(keys.lower_bound("ab"), 1U);
  EXPECT_EQ(keys.lower_bound("abb"), 2U);
  EXPECT_EQ(keys.lower_bound("c"), 5U);
  EXPECT_EQ(keys.upper_bound("ab"), 2U);
  EXPECT_EQ(keys.upper_bound("aa"), 1U);
  EXPECT_EQ(keys.with_prefix("ab"), std::pair(std::size_t{1}, std::size_t{3}));
  EXPECT_EQ(keys.with_prefix(""), std::pair(std::size_t{0}, std::size_t{5}));
  EXPECT_EQ(keys.with_prefix("abd"), std::pair(std::size_t{3}, std::size_t{3}));
  EXPECT_EQ(keys.longest(), 3U);
}

}  // namespace
}  // namespace cairn::ocdbt
