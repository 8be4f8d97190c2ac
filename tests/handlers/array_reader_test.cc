// array_reader_test.cc -- from parameter names to Zarr arrays: names, keys, sizes, and what is
// missing.
#include <cairn/handlers/array_reader.h>
#include <gmock/gmock.h>

#include <cstring>

#include "tests/support/matchers.h"

namespace cairn::handlers {
namespace {

using cairn::testing::FailsWith;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

const std::string kZarray =
    R"({"chunks":[2],"compressor":null,"dimension_separator":".","dtype":"|u1","fill_value":null,"filters":null,"order":"C","shape":[4],"zarr_format":2})";
const std::string kZarrJson =
    R"({"chunk_grid":{"configuration":{"chunk_shape":[2]},"name":"regular"},"chunk_key_encoding":{"name":"default"},"codecs":[{"name":"bytes"}],"data_type":"uint8","fill_value":0,"node_type":"array","shape":[4],"zarr_format":3})";

TensorInfo wanted(const std::string& name) {
  TensorInfo tensor;
  tensor.name = name;
  tensor.typestr = "np.ndarray";
  tensor.kind = LeafKind::kUnknown;
  return tensor;
}

StorePtr store_of(const std::vector<std::pair<std::string, std::string>>& keys) {
  const StorePtr store = make_memory_store();
  for (const auto& [key, value] : keys) store->write(key, as_bytes(value));
  return store;
}

TEST(ArrayReader, ArrayOfKey) {
  const std::vector<std::pair<std::string, std::optional<std::string>>> table = {
      {"a/.zarray", "a"},     {"a/0", "a"},
      {"a/0.12.3", "a"},      {"a/c/0/1", "a"},
      {"a/c", "a"},           {"a/c.0", "a"},
      {"a/b/0", "a/b"},       {"a.b/zarr.json", "a.b"},
      {".zarray", ""},        {"0", ""},
      {"c/0", "c"},           {"zarr.json", ""},
      {"a/.zattrs", "a"},     {"_METADATA", std::nullopt},
      {"a/x0", std::nullopt}, {"a/", std::nullopt},
      {"", std::nullopt},     {"d/12ab", std::nullopt},
      {"a/0/1", "a"}};
  for (const auto& [key, name] : table) {
    const auto found = array_of_key(key);
    EXPECT_EQ(found ? std::optional(std::string(*found)) : std::nullopt, name) << key;
  }
}

TEST(ArrayReader, OpensWhatIsThereAndSaysWhyNot) {
  const StorePtr store = store_of({{"two/.zarray", kZarray},
                                   {"three/zarr.json", kZarrJson},
                                   {"bad/.zarray", "{"},
                                   {".zarray", kZarray}});
  std::vector<TensorInfo> tensors = {wanted("two"), wanted("three"), wanted("bad"), wanted("none"),
                                     wanted("")};
  tensors.push_back(wanted("string"));
  tensors.back().kind = LeafKind::kString;
  const StoredArrays arrays = open_arrays(store, {2}, tensors);
  EXPECT_TRUE(arrays[0] && arrays[1] && arrays[4]);
  EXPECT_FALSE(arrays[2] || arrays[3] || arrays[5]);
  EXPECT_EQ(tensors[0].dtype_name, "uint8");
  EXPECT_EQ(tensors[0].shape, (Shape{4}));
  EXPECT_EQ(tensors[0].chunk_shape, (Shape{2}));
  EXPECT_EQ(tensors[0].nbytes, 4U);
  EXPECT_EQ(tensors[1].dtype_name, "uint8");
  EXPECT_EQ(tensors[2].kind, LeafKind::kUnknown);
  EXPECT_THAT(tensors[2].error, HasSubstr("bad/.zarray"));
  EXPECT_EQ(tensors[3].error, "no array is stored under this name");
  EXPECT_EQ(tensors[5].error, "");
}

TEST(ArrayReader, TheRecordedZarrVersionWins) {
  std::string larger = kZarrJson;
  larger.replace(larger.find("\"shape\":[4]"), 11, "\"shape\":[6]");
  const StorePtr store = store_of({{"a/.zarray", kZarray}, {"a/zarr.json", larger}});
  for (const auto& [format, extent] : {std::pair{2, 4}, std::pair{3, 6}}) {
    std::vector<TensorInfo> tensors = {wanted("a")};
    open_arrays(store, {format}, tensors);
    EXPECT_EQ(tensors[0].shape, (Shape{extent}));
  }
}

TEST(ArrayReader, ShapesThatOverflowAreDamage) {
  std::string huge = kZarray;
  huge.replace(huge.find("\"shape\":[4]"), 11, "\"shape\":[9223372036854775807]");
  huge.replace(huge.find("|u1"), 3, "<f8");
  const StorePtr store = store_of({{"a/.zarray", huge}});
  std::vector<TensorInfo> tensors = {wanted("a")};
  open_arrays(store, {2}, tensors);
  EXPECT_EQ(tensors[0].kind, LeafKind::kUnknown);
  EXPECT_NE(tensors[0].error, "");
}

TEST(ArrayReader, StoredSizesGoToTheLongestName) {
  std::vector<TensorInfo> tensors = {wanted("a"), wanted("a/b"), wanted(""), wanted("a"),
                                     wanted("z")};
  const NameTable names(tensors);
  const std::vector<ListEntry> keys = {
      {".zarray", 7},  {"0", 1},       {"a/.zarray", 100}, {"a/0.0", 10}, {"a/0.1", 20},
      {"a/b/0", 1000}, {"a/c/0/0", 5}, {"c/0", 2},         {"d/ab", 99},  {"x/0", 9}};
  fill_stored_sizes(keys, names, StoredArrays(tensors.size()), tensors);
  EXPECT_EQ(tensors[0].stored_nbytes, 35U);
  EXPECT_EQ(tensors[1].stored_nbytes, 1000U);
  EXPECT_EQ(tensors[2].stored_nbytes, 3U);
  EXPECT_EQ(tensors[3].stored_nbytes, 35U);  // shares the name, so the array
  EXPECT_EQ(tensors[4].stored_nbytes, 0U);
}

TEST(ArrayReader, StringsAreStringLeaves) {
  const auto zarray = [](const std::string& codec) {
    return R"({"zarr_format":2,"dtype":"|O","filters":[{"id":")" + codec +
           R"("}],"shape":[4],"chunks":[2],"fill_value":"","compressor":null})";
  };
  const std::string chunk("\x02\0\0\0\1\0\0\0x\0\0\0\0", 13);
  const StorePtr store = store_of({{"text/.zarray", zarray("vlen-utf8")},
                                   {"text/0", chunk},
                                   {"bytes/.zarray", zarray("vlen-bytes")},
                                   {"json/.zarray", zarray("json2")}});
  std::vector<TensorInfo> tensors = {wanted("text"), wanted("bytes"), wanted("json"),
                                     wanted("orbax")};
  tensors[3].kind = LeafKind::kString;
  const StoredArrays arrays = open_arrays(store, {2}, tensors);
  const NameTable names(tensors);
  fill_stored_sizes(store->list(""), names, arrays, tensors);
  for (const std::size_t i : {0, 1}) {
    EXPECT_EQ(tensors[i].kind, LeafKind::kString);
    EXPECT_EQ(tensors[i].typestr, "string");
    EXPECT_EQ(tensors[i].dtype_name, i == 0 ? "string" : "bytes");
    EXPECT_EQ(tensors[i].shape, (Shape{4}));
    EXPECT_EQ(tensors[i].error, "");
  }
  EXPECT_EQ(tensors[0].stored_nbytes, 13U);
  EXPECT_EQ(tensors[0].nbytes, 13U);
  EXPECT_EQ(tensors[2].kind, LeafKind::kArray);
  EXPECT_EQ(tensors[2].error_code, Code::kUnimplemented);
  EXPECT_THAT(tensors[2].error, HasSubstr("elements of type |O (json2) have no fixed size"));
  EXPECT_EQ(tensors[3].stored_nbytes, 0U);
  EXPECT_EQ(handlers::read_strings(*arrays[0], zarr::MissingChunk::kFill, 0),
            (std::vector<std::string>{"x", "", "", ""}));
}

TEST(ArrayReader, FindsArraysButNotGroups) {
  const StorePtr store = store_of({{"zarr.json", R"({"node_type":"group","zarr_format":3})"},
                                   {"g/zarr.json", R"({"zarr_format":3,"node_type":"group"})"},
                                   {"g/a/zarr.json", kZarrJson},
                                   {"g/a/c/0", "xx"},
                                   {"b/.zarray", kZarray},
                                   {"b/zarr.json", kZarrJson},
                                   {"broken/zarr.json", "{"},
                                   {"orphan/0", "xx"}});
  EXPECT_THAT(find_array_names(store, store->list("")), ElementsAre("b", "broken", "g/a"));
}

TEST(ArrayReader, ReadsManyAsOnePlan) {
  const StorePtr store = store_of({{"a/.zarray", kZarray},
                                   {"a/0", "ab"},
                                   {"a/1", "cd"},
                                   {"b/.zarray", kZarray},
                                   {"b/1", "yz"}});
  std::vector<TensorInfo> tensors = {wanted("a"), wanted("b")};
  const StoredArrays arrays = open_arrays(store, {2}, tensors);
  std::string a(4, '?'), b(4, '?');
  const auto view = [](std::string& text) {
    return MutableArrayView{reinterpret_cast<std::byte*>(text.data()), DType::kUint8, 1, {4}, {1}};
  };
  const Box whole = Box::whole({4});
  const MutableArrayView to_a = view(a), to_b = view(b);
  std::vector<zarr::BoxRead> reads = {{&*arrays[0], &whole, &to_a, "a", zarr::MissingChunk::kError},
                                      {&*arrays[1], &whole, &to_b, "b", zarr::MissingChunk::kFill}};
  std::uint64_t last = 0;
  read_arrays(reads, {}, [&](std::uint64_t done, std::uint64_t total) {
    EXPECT_LE(done, total);
    last = done;
  });
  EXPECT_EQ(a, "abcd");
  EXPECT_EQ(b, std::string("\0\0yz", 4));
  EXPECT_EQ(last, 8U);
  reads[1].missing = zarr::MissingChunk::kError;
  EXPECT_THAT([&] { read_arrays(reads, {}, {}); }, FailsWith(Code::kDataLoss, "b"));
}

TEST(ArrayReader, VerifiesAllAndKeepsTheirOrder) {
  const StorePtr store = store_of({{"a/.zarray", kZarray},
                                   {"a/0", "ab"},
                                   {"b/.zarray", kZarray},
                                   {"b/0", "abc"},
                                   {"b/1", "yz"}});
  std::vector<TensorInfo> tensors = {wanted("a"), wanted("b")};
  const StoredArrays arrays = open_arrays(store, {2}, tensors);
  const std::vector<ArrayCheck> checks = {{&*arrays[0], "a", zarr::MissingChunk::kError, false},
                                          {&*arrays[1], "b", zarr::MissingChunk::kError, false}};
  const std::vector<CheckedArray> checked = verify_arrays(checks, {}, {}, {});
  ASSERT_EQ(checked.size(), 2U);
  ASSERT_EQ(checked[0].findings.size(), 1U);
  EXPECT_EQ(checked[0].findings[0].tensor, "a");  // its second chunk is missing
  ASSERT_EQ(checked[1].findings.size(), 1U);
  EXPECT_EQ(checked[1].findings[0].tensor, "b");  // its first one is too long
  EXPECT_EQ(checked[0].tensor, 0U);
  EXPECT_EQ(checked[1].tensor, 1U);
}

TEST(ArrayReader, EveryChunkLiesOutsideAnArrayWithoutElements) {
  const auto strays_of = [](const std::string& shape) {
    std::string zarray = kZarray;
    zarray.replace(zarray.find("\"shape\":[4]"), 11, "\"shape\":" + shape);
    const StorePtr store = store_of({{"a/.zarray", zarray}, {"a/0", "xx"}, {"a/1", "xx"}});
    std::vector<TensorInfo> tensors = {wanted("a")};
    const StoredArrays arrays = open_arrays(store, {2}, tensors);
    std::vector<std::string> keys;
    for (const auto& [tensor, key] : find_stray_chunks(store->list(""), NameTable(tensors), arrays))
      keys.push_back(key);
    return keys;
  };
  EXPECT_THAT(strays_of("[4]"), ElementsAre());
  EXPECT_THAT(strays_of("[1]"), ElementsAre("a/1"));
  EXPECT_THAT(strays_of("[0]"), ElementsAre("a/0", "a/1"));
}

}  // namespace
}  // namespace cairn::handlers
