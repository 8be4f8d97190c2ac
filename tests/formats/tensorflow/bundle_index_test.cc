// bundle_index_test.cc -- what TensorFlow wrote, read and written again byte for byte; what it says
// about itself; and indexes that say what cannot be.
#include <cairn/base/checksum.h>
#include <cairn/formats/tensorflow/index/bundle_index.h>
#include <gmock/gmock.h>

#include <cstring>

#include "tests/formats/golden.h"
#include "tests/formats/raw/raw_table.h"
#include "tests/support/damage.h"
#include "tests/support/matchers.h"

namespace cairn {
namespace {

using ::testing::ElementsAre;
using testing::FailsWith;
using testing::from_hex;
using testing::from_latin1;
using testing::reader_of;
using testing::table_of;

const std::string kBundleGolden = "tensorflow/tensorflow-2.21.0/";

BundleIndex index_of(ByteView table) { return read_bundle_index(table.size(), reader_of(table)); }

const BundleTensor& tensor(const BundleIndex& index, std::string_view name) {
  for (const BundleTensor& one : index.tensors)
    if (one.name == name) return one;
  throw std::runtime_error("no tensor " + std::string(name));
}

ByteView stored(const Bytes& data, const BundleEntry& entry) {
  return ByteView(data).subspan(static_cast<std::size_t>(entry.offset),
                                static_cast<std::size_t>(entry.size));
}

// A megabyte of index whose names share all their bytes but the last ones.
TEST(BundleIndex, NamesHaveABudget) {
  const std::string shared(std::size_t{1} << 20U, 'k');
  const Bytes value = encode_bundle_entry({.dtype = 1, .shape = {}, .size = 4});
  ByteWriter data;
  testing::put_entry(data, 0, "", encode_bundle_header({}));
  testing::put_entry(data, 0, shared + "100", value);
  for (int i = 101; i < 400; ++i) testing::put_entry(data, shared.size(), std::to_string(i), value);
  testing::RawTable raw;
  const testing::RawHandle block = raw.add_block(testing::block_contents(data.view()));
  const testing::RawHandle meta = raw.add_block(testing::block_contents({}));
  ByteWriter index;
  testing::put_entry(index, 0, "l", testing::handle_bytes(block));
  const Bytes table = raw.finish(meta, raw.add_block(testing::block_contents(index.view())));
  EXPECT_THAT([&] { index_of(table); },
              FailsWith(Code::kUnimplemented, "bytes of memory, the limit of Cairn"));
}

TEST(BundleIndex, SaysOfEveryTypeWhatTensorFlowSays) {
  const BundleIndex index = index_of(read_file(testing::golden(kBundleGolden + "types.index")));
  const Bytes data = read_file(testing::golden(kBundleGolden + "types.data-00000-of-00001"));
  const Json expect = testing::golden_json(kBundleGolden + "types.json");
  EXPECT_EQ(index.header, (BundleHeader{.shards = 1, .big_endian = false, .producer = 1}));
  EXPECT_EQ(index.tensors.size(), expect.as_object()->size());
  EXPECT_GE(index.tensors.size(), 35U);
  for (const auto& [name, facts] : *expect.as_object()) {
    SCOPED_TRACE(name);
    const BundleTensor& found = tensor(index, from_latin1(name));
    Shape shape;
    for (const Json& extent : *(*facts.as_array())[1].as_array())
      shape.push_back(*extent.as_int64());
    EXPECT_EQ(found.entry.dtype, *(*facts.as_array())[0].as_int64());
    EXPECT_EQ(found.entry.shape, shape);
    EXPECT_EQ(found.entry.shard, 0);
    EXPECT_TRUE(found.parts.empty());
    ASSERT_NE(bundle_type(found.entry.dtype), nullptr);
    if (found.entry.dtype == kBundleString) continue;
    EXPECT_EQ(found.entry.crc32c, crc32c_masked(crc32c(stored(data, found.entry))));
    EXPECT_EQ(testing::to_bytes(stored(data, found.entry)),
              from_hex(*(*facts.as_array())[2].as_string()));
  }
}

TEST(BundleIndex, FindsThePartsOfTensors) {
  const BundleIndex index = index_of(read_file(testing::golden(kBundleGolden + "slices.index")));
  const Bytes data = read_file(testing::golden(kBundleGolden + "slices.data-00000-of-00001"));
  std::vector<std::string> names;
  for (const BundleTensor& one : index.tensors) names.push_back(one.name);
  const std::string odd("n\xff\x00", 3);
  EXPECT_THAT(names, ElementsAre("all", "cube", odd, "plain", "w"))
      << "slices have keys of their own, which are not shown";
  const BundleTensor& w = tensor(index, "w");
  EXPECT_EQ(w.entry.shape, (Shape{400, 3}));
  ASSERT_EQ(w.parts.size(), 2U);
  EXPECT_EQ(w.parts[0].box, (Box{{0, 0}, {100, 3}}));
  EXPECT_EQ(w.parts[1].box, (Box{{100, 0}, {300, 3}}));
  EXPECT_TRUE(tensor(index, "all").parts.empty()) << "a slice of everything is the tensor";
  EXPECT_EQ(tensor(index, "cube").parts.at(0).box, (Box{{0, 1, 3}, {4, 1, 2}}));
  EXPECT_EQ(tensor(index, odd).parts.at(1).box, (Box{{2}, {1}}));
  const Json expect = testing::golden_json(kBundleGolden + "slices.json");
  const auto bytes_of = [&](std::size_t i) {
    return from_hex(*(*(*expect.as_array())[i].as_array())[3].as_string());
  };
  EXPECT_EQ(testing::to_bytes(stored(data, w.parts[1].entry)), bytes_of(1));
  EXPECT_EQ(w.parts[1].entry.crc32c, crc32c_masked(crc32c(bytes_of(1))));
}

TEST(BundleIndex, WritesItsMessagesAsTensorFlowDoes) {
  for (const char* name : {"types", "slices"}) {
    const Bytes table = read_file(testing::golden(kBundleGolden + name + ".index"));
    std::size_t entries = 0;
    read_sstable(table.size(), reader_of(table), [&](std::string_view key, ByteView value) {
      const Bytes written = key.empty() ? encode_bundle_header(parse_bundle_header(value))
                                        : encode_bundle_entry(parse_bundle_entry(value));
      EXPECT_EQ(written, testing::to_bytes(value)) << key;
      ++entries;
    });
    EXPECT_GE(entries, 10U);
  }
}

TEST(BundleIndex, NamesSlicesAsTensorFlowDoes) {
  const auto key = [](std::string_view name, const TensorSlice& slice) {
    return testing::to_bytes(as_bytes(slice_key(name, slice)));
  };
  EXPECT_EQ(key("w", {{0, 100}, {}}), from_hex("00770001010280c064807f"));
  EXPECT_EQ(key("w", {{100, 300}, {}}), from_hex("007700010102c064c12c807f"));
  EXPECT_EQ(key(std::string_view("emb\0\xff", 5), {{0, 2}}),
            from_hex("00656d6200ffff00000101018082"));
  const auto start = [&](std::int64_t at) {
    const Bytes whole = key("", {{at, std::nullopt}});
    return Bytes(whole.begin() + 5, whole.end() - 1);
  };
  EXPECT_EQ(start(63), from_hex("bf"));
  EXPECT_EQ(start(-64), from_hex("40"));
  EXPECT_EQ(start(64), from_hex("c040"));
  EXPECT_EQ(start(8192), from_hex("e02000"));
  EXPECT_EQ(start(std::int64_t{1} << 31), from_hex("f880000000"));
  EXPECT_EQ(start(std::int64_t{1} << 55), from_hex("ff8080000000000000"));
  EXPECT_EQ(start(std::int64_t{1} << 62), from_hex("ffc04000000000000000"));
}

// ---- what cannot be ----
using Items = std::vector<std::pair<std::string, Bytes>>;

Bytes sound_header() { return encode_bundle_header({.shards = 1, .producer = 1}); }
BundleEntry floats(Shape shape) {
  const std::int64_t size = 4 * element_count(shape);
  return {.dtype = 1, .shape = std::move(shape), .size = size};
}
Bytes with(const BundleEntry& entry) {
  return table_of({{"", sound_header()}, {"k", encode_bundle_entry(entry)}});
}
Bytes with_header(const BundleHeader& header) {
  return table_of({{"", encode_bundle_header(header)}, {"k", encode_bundle_entry(floats({2}))}});
}

void refuses(const Bytes& table, const char* text, Code code = Code::kDataLoss) {
  EXPECT_THAT([&] { index_of(table); }, FailsWith(code, text)) << text;
}

template <class Change>
BundleEntry changed(BundleEntry entry, const Change& change) {
  change(entry);
  return entry;
}

TEST(BundleIndex, RefusesHeadersOfOthers) {
  EXPECT_EQ(index_of(with_header(
                         {.shards = 3, .producer = 9, .min_consumer = 1, .bad_consumers = {0, 2}}))
                .header.shards,
            3);
  refuses(table_of({{"k", encode_bundle_entry(floats({2}))}}), "there is no header");
  refuses(with_header({.shards = 0, .producer = 1}), "invalid number of data files: 0");
  refuses(with_header({.shards = -1, .producer = 1}), "invalid number of data files: -1");
  refuses(with_header({.shards = 1, .producer = -1}), "invalid version -1");
  refuses(with_header({.shards = 1, .producer = 1, .min_consumer = 2}),
          "needs a reader of version 2", Code::kUnimplemented);
  refuses(with_header({.shards = 1, .producer = 1, .bad_consumers = {5, 1}}),
          "not one of version 1", Code::kUnimplemented);
  refuses(table_of({{"", from_hex("1002")}}), "unknown byte order 2");
  refuses(table_of({{"", from_hex("08")}}), "the header: unexpected end");
  refuses(table_of({{"", from_hex("0f00")}}), "wire type 7");
  refuses(table_of({{"", from_hex("0a00")}}), "wire type 2, expected 0");
}

TEST(BundleIndex, RefusesEntriesThatCannotBe) {
  EXPECT_EQ(index_of(with(floats({2, 3}))).tensors.size(), 1U);
  const auto refuses_entry = [](const auto& change, const char* text) {
    refuses(with(changed(floats({2, 3}), change)), text);
  };
  refuses_entry([](BundleEntry& e) { e.dtype = 0; }, "tensor 'k': it is of type 0");
  refuses_entry([](BundleEntry& e) { e.dtype = 20; }, "of type 20");
  refuses_entry([](BundleEntry& e) { e.dtype = 34; }, "of type 34");
  refuses_entry([](BundleEntry& e) { e.dtype = -1; }, "of type -1");
  refuses_entry([](BundleEntry& e) { e.shard = 1; }, "data file 1 of 1");
  refuses_entry([](BundleEntry& e) { e.shard = -1; }, "data file -1 of 1");
  refuses_entry([](BundleEntry& e) { e.offset = -8; }, "at byte -8");
  refuses_entry([](BundleEntry& e) { e.offset = INT64_MAX; }, "24 bytes long");
  refuses_entry([](BundleEntry& e) { e.size = 23; },
                "it has 23 bytes, which does not match (2, 3) elements of float");
  refuses_entry([](BundleEntry& e) { e.shape = {-2, -3}; }, "its shape is (-2, -3)");
  refuses_entry([](BundleEntry& e) { e.shape.assign(255, 1); }, "it has 255 dimensions");
  refuses_entry([](BundleEntry& e) { e.shape = {INT64_MAX, 3}; }, "more than 2^63-1 elements");
  refuses_entry([](BundleEntry& e) { e.shape = {INT64_MAX}; }, "which does not match");
  refuses_entry([](BundleEntry& e) { e.dtype = kBundleString, e.shape = {2}, e.size = 5; },
                "too few for 2 strings");
  refuses_entry([](BundleEntry& e) { e.dtype = kBundleString, e.shape = {0}, e.size = 5; },
                "0 strings");
  refuses(table_of({{"", sound_header()}, {"k", from_hex("080112021801")}}),
          "its rank is not known", Code::kUnimplemented);
  refuses(table_of({{"", sound_header()}, {"k", from_hex("0801120012")}}),
          "tensor 'k': unexpected end");
  EXPECT_EQ(index_of(table_of({{"", sound_header()},
                               {"k", from_hex("0801120812020802120208032818fa3f00")}}))
                .tensors.size(),
            1U)
      << "fields that are not known are passed over";
}

// A tensor of (4,) in these slices, each with an entry.
Items in_slices(const std::vector<TensorSlice>& slices, const std::vector<BundleEntry>& entries) {
  BundleEntry whole{.dtype = 1, .shape = {4}};
  whole.slices = slices;
  Items items = {{"", sound_header()}, {"k", encode_bundle_entry(whole)}};
  for (std::size_t i = 0; i < entries.size(); ++i)
    items.emplace_back(slice_key("k", slices[i]), encode_bundle_entry(entries[i]));
  std::sort(items.begin(), items.end());
  return items;
}

TEST(BundleIndex, RefusesSlicesThatCannotBe) {
  EXPECT_EQ(index_of(table_of(in_slices({{{0, 1}}, {{1, 3}}}, {floats({1}), floats({3})})))
                .tensors.at(0)
                .parts.size(),
            2U);
  EXPECT_EQ(index_of(table_of(in_slices({{{3, 1}}}, {floats({1})}))).tensors.at(0).parts.size(), 1U)
      << "what is missing is missed when it is read";
  const auto refuses_slices = [](const std::vector<TensorSlice>& slices,
                                 const std::vector<BundleEntry>& entries, const char* text) {
    refuses(table_of(in_slices(slices, entries)), text);
  };
  refuses_slices({{{0, 1}}}, {}, "no entry for its slice 0,1");
  refuses_slices({{{0, 1}}}, {floats({2})}, "belongs to another tensor");
  refuses_slices({{{0, 1}}}, {changed(floats({1}), [](BundleEntry& e) { e.dtype = 3; })},
                 "belongs to another tensor");
  refuses_slices({{{0, 1}}},
                 {changed(floats({1}),
                          [](BundleEntry& e) {
                            e.slices = {{{0, 1}}};
                          })},
                 "");
  refuses_slices({{{0, 1}}}, {changed(floats({1}), [](BundleEntry& e) { e.size = 3; })},
                 "it has 3 bytes");
  refuses_slices({{{0, 3}}, {{2, 2}}}, {floats({3}), floats({2})}, "overlap");
  refuses_slices({{{0, 2}}, {{0, 2}}}, {floats({2})}, "");
  refuses_slices({{{0, 5}}}, {floats({5})}, "is not inside (4,)");
  refuses_slices({{{5, 1}}}, {floats({1})}, "is not inside (4,)");
  refuses_slices({{{INT64_MAX, 1}}}, {floats({1})}, "is not inside (4,)");
  refuses_slices({{{-1, 1}}}, {floats({1})}, "is not inside (4,)");
  refuses_slices({{{0, 0}}}, {floats({0})}, "is not inside (4,)");
  refuses_slices({{{1, std::nullopt}}}, {floats({4})}, "has a nonzero start");
  refuses_slices({{{0, 1}, {0, 1}}}, {floats({1, 1})}, "does not match the rank");
  BundleEntry huge{.dtype = 1, .shape = {INT64_MAX / 2}};
  huge.slices = {{{0, 1}}};
  refuses(table_of({{"", sound_header()},
                    {slice_key("k", {{0, 1}}), encode_bundle_entry(floats({1}))},
                    {"k", encode_bundle_entry(huge)}}),
          "has more than 2^63-1 bytes");
}

TEST(BundleIndex, NoticesEveryDamagedBit) {
  const Bytes table = read_file(testing::golden(kBundleGolden + "types.index"));
  testing::for_each_bit_flip(table, [](ByteView bad, const std::string& what) {
    EXPECT_THAT([&] { index_of(bad); }, FailsWith(Code::kDataLoss, "")) << what;
  });
}

}  // namespace
}  // namespace cairn
