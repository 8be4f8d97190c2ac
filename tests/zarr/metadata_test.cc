// metadata_test.cc -- `.zarray` and `zarr.json`: what is required, what may be left out, what is
// refused and how.
#include <cairn/zarr/read/array.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <tests/support/hex.h>
#include <tests/support/matchers.h>

#include <functional>
#include <string>

namespace cairn::zarr {
namespace {

using cairn::testing::FailsWith;
using cairn::testing::to_hex;

constexpr std::string_view kV2 =
    R"({"chunks":[2,3],"compressor":{"id":"zstd","level":1},"dimension_separator":".","dtype":"<f4","fill_value":null,)"
    R"("filters":null,"order":"C","shape":[5,4],"zarr_format":2})";
constexpr std::string_view kV3 =
    R"({"chunk_grid":{"configuration":{"chunk_shape":[2,3]},"name":"regular"},"chunk_key_encoding":{"name":"default"},)"
    R"("codecs":[{"configuration":{"endian":"little"},"name":"bytes"},{"configuration":{"level":3},"name":"zstd"}],)"
    R"("data_type":"float32","fill_value":0.0,"node_type":"array","shape":[5,4],"zarr_format":3})";

// The text with member `key` replaced by the JSON `value`; removed if that is empty, added if it
// was not there.
std::string with(std::string_view text, std::string_view key, std::string_view value) {
  Json root = parse_json(text);
  Json changed = JsonObject{};
  for (const auto& [k, v] : *root.as_object())
    if (k != key) changed.set(k, v);
  if (!value.empty()) changed.set(key, parse_json(value));
  return to_text(changed);
}

ArrayMetadata v2(std::string_view key, std::string_view value) {
  return parse_zarray(with(kV2, key, value));
}
ArrayMetadata v3(std::string_view key, std::string_view value) {
  return parse_zarr_json(with(kV3, key, value));
}

TEST(Zarray, SaysWhatAnArrayIs) {
  const ArrayMetadata metadata = parse_zarray(kV2);
  EXPECT_EQ(metadata.zarr_format, 2);
  EXPECT_EQ(metadata.shape, (Shape{5, 4}));
  EXPECT_EQ(metadata.chunk_shape, (Shape{2, 3}));
  EXPECT_EQ(metadata.read_chunk_shape(), (Shape{2, 3}));
  EXPECT_EQ(metadata.dtype, DType::kFloat32);
  EXPECT_EQ(metadata.dtype_name, "float32");
  EXPECT_EQ(metadata.element_size, 4U);
  EXPECT_TRUE(metadata.fill_is_null);
  EXPECT_EQ(to_hex(metadata.fill_value), "00000000");
  EXPECT_EQ(metadata.codecs.steps, std::vector<ByteStep>{CompressStep{Codec::kZstd}});
  const std::int64_t position[] = {2, 1};
  EXPECT_EQ(metadata.keys.key(position), "2.1");
  EXPECT_EQ(v2("dimension_separator", R"("/")").keys.key(position), "2/1");
  EXPECT_EQ(metadata.keys.key({}), "0");
}

TEST(ZarrJson, SaysWhatAnArrayIs) {
  const ArrayMetadata metadata = v3("dimension_names", R"(["x",null])");
  EXPECT_EQ(metadata.zarr_format, 3);
  EXPECT_EQ(metadata.shape, (Shape{5, 4}));
  EXPECT_EQ(metadata.chunk_shape, (Shape{2, 3}));
  EXPECT_EQ(metadata.dtype, DType::kFloat32);
  EXPECT_FALSE(metadata.fill_is_null);
  EXPECT_EQ(metadata.dimension_names, (std::vector<std::optional<std::string>>{"x", std::nullopt}));
  EXPECT_EQ(*v3("attributes", R"({"a":1})").attributes.find("a"), Json(1));
  const std::int64_t position[] = {2, 1};
  EXPECT_EQ(metadata.keys.key(position), "c/2/1");
  EXPECT_EQ(metadata.keys.key({}), "c");
  const auto keys = [&](const char* encoding) { return v3("chunk_key_encoding", encoding).keys; };
  EXPECT_EQ(keys(R"({"name":"default","configuration":{"separator":"."}})").key(position), "c.2.1");
  EXPECT_EQ(keys(R"({"name":"v2"})").key(position), "2.1");
  EXPECT_EQ(keys(R"({"name":"v2"})").key({}), "0");
  EXPECT_EQ(keys(R"({"name":"v2","configuration":{"separator":"/"}})").key(position), "2/1");
}

TEST(ZarrJson, InnermostChunkOfNestedShards) {
  const ArrayMetadata metadata =
      v3("codecs", R"([{"name":"transpose","configuration":{"order":[1,0]}},
    {"name":"sharding_indexed","configuration":{"chunk_shape":[3,2],"codecs":[
      {"name":"sharding_indexed","configuration":{"chunk_shape":[3,1],"codecs":[{"name":"bytes","configuration":{"endian":"big"}}]}}]}}])");
  EXPECT_EQ(metadata.read_chunk_shape(), (Shape{1, 3}));
}

// ---- members that must be there, and those that may be missing ----

TEST(Zarray, RequiredMembers) {
  for (const char* member : {"zarr_format", "shape", "chunks", "dtype", "compressor"})
    EXPECT_THAT([&] { v2(member, ""); }, FailsWith(Code::kDataLoss, member));
}

TEST(Zarray, OptionalMembers) {
  for (const char* member : {"fill_value", "filters", "order", "dimension_separator"})
    EXPECT_NO_THROW(v2(member, "")) << member;
  EXPECT_NO_THROW(v2("something", R"({"else":1})"));
  EXPECT_NO_THROW(v2("filters", "[]"));
  EXPECT_NO_THROW(v2("compressor", R"({"id":"zstd","level":3,"checksum":true})"));
  EXPECT_NO_THROW(v2("chunks", "[100,100]"));
  EXPECT_NO_THROW(v2("shape", "[0,4]"));
}

TEST(ZarrJson, RequiredMembers) {
  for (const char* member : {"zarr_format", "node_type", "shape", "data_type", "chunk_grid",
                             "chunk_key_encoding", "fill_value", "codecs"})
    EXPECT_THAT([&] { v3(member, ""); }, FailsWith(Code::kDataLoss, member));
}

TEST(ZarrJson, OptionalMembers) {
  EXPECT_NO_THROW(v3("attributes", R"({"x":1})"));
  EXPECT_NO_THROW(v3("storage_transformers", "[]"));
  EXPECT_NO_THROW(v3("consolidated_metadata", "null"));
  EXPECT_NO_THROW(v3("extra", R"({"must_understand":false,"x":1})"));
  EXPECT_NO_THROW(v3("data_type", R"({"name":"float32","configuration":{}})"));
  EXPECT_NO_THROW(v3("chunk_key_encoding", R"("default")"));
}

// ---- what is refused ----

struct Refusal {
  const char* member;
  const char* value;
  Code code;
  const char* expect;
};

TEST(Zarray, Refusals) {
  const Refusal kRefusals[] = {
      {"zarr_format", "3", Code::kDataLoss, "zarr_format"},
      {"zarr_format", "\"2\"", Code::kDataLoss, "zarr_format"},
      {"shape", "[5,-1]", Code::kDataLoss, "shape"},
      {"shape", "[5,4.5]", Code::kDataLoss, "shape"},
      {"shape", "5", Code::kDataLoss, "shape"},
      {"shape", "[9223372036854775808,1]", Code::kDataLoss, "shape"},
      {"shape", "[4611686018427387904,4]", Code::kDataLoss, "impossibly large"},
      {"chunks", "[2]", Code::kDataLoss, "rank"},
      {"chunks", "[2,0]", Code::kDataLoss, "chunks"},
      {"chunks", "[4611686018427387904,4]", Code::kDataLoss, "impossibly large"},
      {"dtype", "\"f4\"", Code::kUnimplemented, "f4"},
      {"dtype", "\"<f3\"", Code::kUnimplemented, "<f3"},
      {"dtype", "\"|f4\"", Code::kDataLoss, "byte order"},
      {"dtype", "\"float32\"", Code::kUnimplemented, "float32"},
      {"dtype", "\"|O\"", Code::kDataLoss, "'|O' needs a filter"},
      {"dtype", R"([["a","|O"]])", Code::kUnimplemented, "no fixed size"},
      {"dtype", "\"|S0\"", Code::kUnimplemented, "|S0"},
      {"dtype", "\"|V99999999999999999999\"", Code::kUnimplemented, "|V9"},
      {"dtype", "\"\"", Code::kUnimplemented, "dtype"},
      {"dtype", "7", Code::kDataLoss, "dtype"},
      {"dtype", "[]", Code::kDataLoss, "fields"},
      {"dtype", R"([["a"]])", Code::kDataLoss, "field"},
      {"dtype", R"([["a","<i4",[0]]])", Code::kDataLoss, "field"},
      {"dtype", R"([["a","<i4",[4294967296,4294967296]]])", Code::kDataLoss, "element"},
      {"order", "\"K\"", Code::kDataLoss, "order"},
      {"dimension_separator", "\"-\"", Code::kDataLoss, "dimension_separator"},
      {"compressor", R"({"level":1})", Code::kDataLoss, "id"},
      {"compressor", "\"zstd\"", Code::kDataLoss, "compressor"},
      {"filters", R"([{"id":"delta"}])", Code::kDataLoss, "filter: codec 'delta': lacks 'dtype'"},
      {"filters", R"([{"id":"delta","dtype":7}])", Code::kDataLoss, "dtype 7 is not valid"},
      {"filters", R"([{"id":"delta","dtype":"|b1"}])", Code::kUnimplemented,
       "'delta' is not supported for elements of type bool"},
      {"filters", R"([{"id":"delta","dtype":"<M8[s]"}])", Code::kUnimplemented,
       "for elements of type \"<M8[s]\""},
      {"filters", R"([{"id":"delta","dtype":"<i4","astype":"<f4"}])", Code::kUnimplemented,
       "int32 stored as float32"},
      {"filters", R"([{"id":"fixedscaleoffset"}])", Code::kDataLoss, "lacks 'dtype'"},
      {"filters", R"([{"id":"fixedscaleoffset","dtype":"<f8","scale":1}])", Code::kDataLoss,
       "lacks 'offset'"},
      {"filters", R"([{"id":"fixedscaleoffset","dtype":"<f8","scale":"1","offset":0}])",
       Code::kDataLoss, "scale \"1\" is not valid"},
      {"filters", R"([{"id":"fixedscaleoffset","dtype":"<f2","scale":1,"offset":0}])",
       Code::kUnimplemented, "stored as float16"},
      {"filters", R"([{"id":"fixedscaleoffset","dtype":"<c8","scale":1,"offset":0}])",
       Code::kUnimplemented, "complex64"},
      {"filters", R"([{"id":"quantize","dtype":"<U4"}])", Code::kUnimplemented, "\"<U4\""},
      {"filters", R"([{"id":"astype","decode_dtype":"<i4"}])", Code::kDataLoss,
       "lacks 'encode_dtype'"},
      {"filters", R"([{"id":"astype","encode_dtype":"<i4"}])", Code::kDataLoss,
       "lacks 'decode_dtype'"},
      {"filters", R"([{"id":"astype","decode_dtype":"<i4","encode_dtype":"bfloat16"}])",
       Code::kUnimplemented, "bfloat16"},
      {"filters", R"([{"id":"jenkins_lookup3","initval":-1}])", Code::kDataLoss, "initval -1"},
      {"filters", R"([{"id":"jenkins_lookup3","prefix":"x"}])", Code::kUnimplemented, "prefix"},
      {"filters", R"([{"id":"adler32","location":0}])", Code::kDataLoss, "location"},
      {"filters", R"([{"id":"categorize"}])", Code::kUnimplemented,
       "codec 'categorize' is not supported: its elements"},
      {"filters", R"([{"id":"pickle"}])", Code::kUnimplemented,
       "reading a pickle would run a program"},
      {"filters", R"([7])", Code::kDataLoss, "filter: 7 is not a codec"},
      {"compressor", R"({"id":"lzma"})", Code::kUnimplemented,
       "compressor: codec 'lzma' is not supported"},
      {"filters", R"([{"id":"shuffle","elementsize":65537}])", Code::kDataLoss, "shuffle"},
      {"filters", R"([{"id":"crc32c","location":"middle"}])", Code::kDataLoss, "location"},
      {"filters", R"("none")", Code::kDataLoss, "filters"},
  };
  for (const Refusal& refusal : kRefusals)
    EXPECT_THAT([&] { v2(refusal.member, refusal.value); }, FailsWith(refusal.code, refusal.expect))
        << refusal.member << refusal.value;
  EXPECT_THAT([] { parse_zarray("[]"); }, FailsWith(Code::kDataLoss, "not an object"));
  EXPECT_THAT([] { parse_zarray(""); }, FailsWith(Code::kDataLoss));
  EXPECT_THAT([] { parse_zarray(std::string(kV2) + "x"); }, FailsWith(Code::kDataLoss));
}

TEST(ZarrJson, Refusals) {
  const auto codec = [](const std::string& codecs) { return "[" + codecs + "]"; };
  const std::string bytes = R"({"name":"bytes","configuration":{"endian":"little"}})";
  const auto shard = [&](const std::string& members) {
    return R"([{"name":"sharding_indexed","configuration":{)" + members + R"("codecs":[)" + bytes +
           "]}}]";
  };
  const struct {
    const char* member;
    std::string value;
    Code code;
    const char* expect;
  } kRefusals[] = {
      {"zarr_format", "2", Code::kDataLoss, "zarr_format"},
      {"node_type", "\"group\"", Code::kDataLoss, "node_type"},
      {"unknown", "1", Code::kUnimplemented, "unknown"},
      {"unknown", R"({"must_understand":true})", Code::kUnimplemented, "unknown"},
      {"storage_transformers", "[{}]", Code::kUnimplemented, "storage_transformers"},
      {"dimension_names", R"(["x"])", Code::kDataLoss, "dimension_names"},
      {"dimension_names", R"(["x",1])", Code::kDataLoss, "dimension_names"},
      {"data_type", "\"<f4\"", Code::kUnimplemented, "<f4"},
      {"data_type", "\"string\"", Code::kDataLoss, "'bytes' cannot encode elements of type string"},
      {"data_type", R"({"name":"struct","configuration":{"fields":[["a","string"]]}})",
       Code::kUnimplemented, "no fixed size"},
      {"codecs", R"([{"name":"vlen-utf8"}])", Code::kDataLoss, "'vlen-utf8' cannot encode"},
      {"data_type", R"({"name":"fixed_length_utf32","configuration":{"length_bytes":6}})",
       Code::kDataLoss, "multiple of 4"},
      {"data_type", R"({"name":"raw_bytes"})", Code::kDataLoss, "length_bytes"},
      {"data_type", R"({"name":"structured","configuration":{"fields":[]}})", Code::kDataLoss,
       "fields"},
      {"data_type", "\"r12\"", Code::kUnimplemented, "r12"},
      {"data_type", "1", Code::kDataLoss, "data_type"},
      {"chunk_grid", R"({"name":"rectangular"})", Code::kUnimplemented, "rectangular"},
      {"chunk_grid", R"({"name":"regular"})", Code::kDataLoss, "chunk_shape"},
      {"chunk_grid", R"({"name":"regular","configuration":{"chunk_shape":[2,3],"x":1}})",
       Code::kUnimplemented, "'x'"},
      {"chunk_grid", R"({"name":"regular","configuration":{"chunk_shape":[2,0]}})", Code::kDataLoss,
       "chunk_shape"},
      {"chunk_key_encoding", R"({"name":"v9"})", Code::kUnimplemented, "v9"},
      {"chunk_key_encoding", R"({"name":"v2","configuration":{"separator":"-"}})", Code::kDataLoss,
       "separator"},
      {"chunk_key_encoding", R"({"name":"v2","configuration":[]})", Code::kDataLoss,
       "configuration"},
      {"fill_value", "null", Code::kDataLoss, "fill_value"},
      {"codecs", "[]", Code::kDataLoss, "the list has no"},
      {"codecs", "{}", Code::kDataLoss, "codecs"},
      {"codecs", codec("{}"), Code::kDataLoss, "name"},
      {"codecs", codec(R"({"name":"bytes"})"), Code::kDataLoss, "endian"},
      {"codecs", codec(R"({"name":"bytes","configuration":{"endian":"middle"}})"), Code::kDataLoss,
       "endian"},
      {"codecs", codec(R"({"name":"bytes","configuration":{"endian":"big","x":1}})"),
       Code::kUnimplemented, "'x'"},
      {"codecs", codec(bytes + "," + bytes), Code::kDataLoss, "cannot follow"},
      {"codecs", codec(bytes + R"(,{"name":"transpose","configuration":{"order":[0,1]}})"),
       Code::kDataLoss, "cannot follow"},
      {"codecs", codec(R"({"name":"zstd"},)" + bytes), Code::kDataLoss, "before"},
      {"codecs", codec(bytes + R"(,{"name":"lz77"})"), Code::kUnimplemented, "lz77"},
      {"codecs", codec(bytes + R"(,{"name":"lz4"})"), Code::kUnimplemented, "lz4"},
      {"codecs", codec(bytes + R"(,{"name":"crc32c","configuration":{"x":1}})"),
       Code::kUnimplemented, "'x'"},
      {"codecs", codec(bytes + R"(,{"name":"numcodecs.delta","configuration":{"dtype":"<i4"}})"),
       Code::kDataLoss, "cannot follow"},
      {"codecs", codec(R"({"name":"numcodecs.crc32"},)" + bytes), Code::kDataLoss,
       "comes before 'bytes'"},
      {"codecs",
       codec(
           R"({"name":"numcodecs.delta","configuration":{"dtype":"<i4"}},{"name":"bytes","configuration":{"endian":"big"}})"),
       Code::kUnimplemented, "big-endian elements behind a filter"},
      {"codecs",
       codec(
           R"({"name":"numcodecs.packbits"},{"name":"transpose","configuration":{"order":[1,0]}},)" +
           bytes),
       Code::kUnimplemented, "'transpose' behind a filter that loses the shape"},
      {"codecs", codec(bytes + R"(,{"name":"numcodecs.lzma"})"), Code::kUnimplemented,
       "'lzma' is not supported"},
      {"codecs", codec(R"({"name":"transpose","configuration":{"order":[0,0]}},)" + bytes),
       Code::kDataLoss, "permutation"},
      {"codecs", codec(R"({"name":"transpose","configuration":{"order":[0,2]}},)" + bytes),
       Code::kDataLoss, "permutation"},
      {"codecs", codec(R"({"name":"transpose","configuration":{"order":[0]}},)" + bytes),
       Code::kDataLoss, "rank"},
      {"codecs", shard(""), Code::kDataLoss, "chunk_shape"},
      {"codecs", shard(R"("chunk_shape":[2,2],)"), Code::kDataLoss, "does not divide"},
      {"codecs", shard(R"("chunk_shape":[2],)"), Code::kDataLoss, "does not divide"},
      {"codecs", shard(R"("chunk_shape":[2,3],"index_location":"middle",)"), Code::kDataLoss,
       "index_location"},
      {"codecs", shard(R"("chunk_shape":[2,3],"index_codecs":[],)"), Code::kDataLoss,
       "index_codecs"},
      {"codecs", shard(R"("chunk_shape":[2,3],"index_codecs":[{"name":"zstd"}],)"),
       Code::kUnimplemented, "index codec"},
      {"codecs", shard(R"("chunk_shape":[2,3],"index_codecs":[)" + bytes + R"(,{"name":"zstd"}],)"),
       Code::kUnimplemented, "index codecs"},
      {"codecs",
       shard(R"("chunk_shape":[2,3],)")
           .insert(shard(R"("chunk_shape":[2,3],)").size() - 1, R"(,{"name":"crc32c"})"),
       Code::kUnimplemented, "around"},
  };
  for (const auto& refusal : kRefusals)
    EXPECT_THAT([&] { v3(refusal.member, refusal.value); }, FailsWith(refusal.code, refusal.expect))
        << refusal.member << refusal.value;
}

TEST(ZarrJson, ShardsNestedWithoutEndAreRefused) {
  std::string codecs = R"({"name":"bytes","configuration":{"endian":"little"}})";
  for (int i = 0; i < 20; ++i)
    codecs = R"({"name":"sharding_indexed","configuration":{"chunk_shape":[2,3],"codecs":[)" +
             codecs + "]}}";
  EXPECT_THAT([&] { v3("codecs", "[" + codecs + "]"); }, FailsWith(Code::kUnimplemented, "nested"));
}

// ---- element types ----

TEST(Zarray, ElementTypes) {
  const struct {
    const char* dtype;
    DType expect;
    std::size_t size;
    const char* name;
    bool swapped = false;
  } kTypes[] = {
      {"|b1", DType::kBool, 1, "bool"},
      {"<i1", DType::kInt8, 1, "int8"},
      {">u1", DType::kUint8, 1, "uint8"},
      {">i8", DType::kInt64, 8, "int64", true},
      {"<f2", DType::kFloat16, 2, "float16"},
      {">c16", DType::kComplex128, 16, "complex128", true},
      {"bfloat16", DType::kBfloat16, 2, "bfloat16"},
      {"int4", DType::kInt4, 1, "int4"},
      {"uint4", DType::kUint4, 1, "uint4"},
      {"float8_e4m3", DType::kFloat8E4m3, 1, "float8_e4m3"},
      {"|S7", DType::kOpaque, 7, "|S7"},
      {"<U3", DType::kOpaque, 12, "<U3"},
      {">M8[ns]", DType::kOpaque, 8, ">M8[ns]"},
      {"<m8", DType::kOpaque, 8, "<m8"},
      {"|V5", DType::kOpaque, 5, "|V5"},
  };
  for (const auto& type : kTypes) {
    const ArrayMetadata metadata = v2("dtype", fmt::format("\"{}\"", type.dtype));
    EXPECT_EQ(metadata.dtype, type.expect) << type.dtype;
    EXPECT_EQ(metadata.element_size, type.size) << type.dtype;
    EXPECT_EQ(metadata.dtype_name, type.name);
    EXPECT_EQ(metadata.codecs.swap_bytes, type.swapped) << type.dtype;
  }
  const ArrayMetadata nested =
      v2("dtype", R"([["a",[["x","<i2"],["y","|S3",[2,2]]]],["b","<f8"]])");
  EXPECT_EQ(nested.element_size, 2U + 12 + 8);
  EXPECT_EQ(nested.dtype_name, R"([["a",[["x","<i2"],["y","|S3",[2,2]]]],["b","<f8"]])");
}

TEST(ZarrJson, ElementTypes) {
  for (int i = 0; i < kDTypeCount; ++i) {
    const auto dtype = static_cast<DType>(i);
    const bool boolean = dtype == DType::kBool;
    const bool complex = dtype_kind(dtype) == DTypeKind::kComplex;
    const std::string text = with(kV3, "fill_value", boolean ? "true" : complex ? "[0,0]" : "0");
    const ArrayMetadata metadata =
        parse_zarr_json(with(text, "data_type", fmt::format("\"{}\"", dtype_name(dtype))));
    EXPECT_EQ(metadata.dtype, dtype);
    EXPECT_EQ(metadata.element_size, dtype_size(dtype));
  }
  const std::string zero = with(kV3, "fill_value", "0");
  EXPECT_EQ(parse_zarr_json(with(zero, "data_type", "\"r16\"")).dtype_name, "|V2");
  EXPECT_EQ(
      parse_zarr_json(with(with(kV3, "fill_value", "[1,255]"), "data_type", "\"r16\"")).fill_value,
      (Bytes{std::byte{1}, std::byte{255}}));
  const std::string big =
      with(zero, "codecs", R"([{"name":"bytes","configuration":{"endian":"big"}}])");
  EXPECT_TRUE(parse_zarr_json(with(big, "data_type", "\"int16\"")).codecs.swap_bytes);
  EXPECT_FALSE(parse_zarr_json(with(big, "data_type", "\"int8\"")).codecs.swap_bytes);
  EXPECT_THAT(
      [&] {
        parse_zarr_json(
            with(big, "data_type",
                 R"({"name":"numpy.datetime64","configuration":{"unit":"s","scale_factor":1}})"));
      },
      FailsWith(Code::kUnimplemented, "big-endian"));
}

// ---- fill values ----

TEST(FillValue, V2) {
  const struct {
    const char* dtype;
    const char* fill;
    const char* expect;  // null: refused
  } kFills[] = {
      {"<i2", "-2", "feff"},
      {"<i2", "5.0", "0500"},
      {"<i2", "\"5\"", nullptr},
      {"<i2", "32768", nullptr},
      {">i2", "-2", "feff"},
      {"|u1", "256", nullptr},
      {"|u1", "-1", nullptr},
      {"<u8", "18446744073709551615", "ffffffffffffffff"},
      {"<i8", "9223372036854775808", nullptr},
      {"<i8", "-9223372036854775808", "0000000000000080"},
      {"int4", "-8", "f8"},
      {"int4", "8", nullptr},
      {"int2", "1", "01"},
      {"int2", "2", nullptr},
      {"|b1", "true", "01"},
      {"|b1", "0", "00"},
      {"|b1", "2", "01"},
      {"|b1", "\"true\"", nullptr},
      {"<f4", "1.5", "0000c03f"},
      {"<f4", "\"1.5\"", "0000c03f"},
      {"<f4", "\"NaN\"", "0000c07f"},
      {"<f4", "\"0x7fc00000\"", nullptr},
      {"<f4", "\"Infinity\"", "0000807f"},
      {"<f4", "\"-Infinity\"", "000080ff"},
      {"<f4", "\"inf\"", "0000807f"},
      {"<f4", "true", nullptr},
      {"<f4", "[1]", nullptr},
      {"<f4", "\"\"", nullptr},
      {"float4_e2m1fn", "\"AQ==\"", "01"},
      {"<c8", "[1,\"NaN\"]", "0000803f0000c07f"},
      {"<c8", "[1]", nullptr},
      {"<c8", "2", "0000004000000000"},
      {">c8", "\"P4AAAEAAAAA=\"", "0000803f00000040"},
      {"<c8", "\"AAAA\"", nullptr},
      {"|S3", "\"\"", "000000"},
      {"|S3", "\"YWI=\"", "616200"},
      {"|S3", "0", "000000"},
      {"|S3", "\"YWJjZA==\"", nullptr},
      {"|S3", "\"%%\"", nullptr},
      {"|S3", "\"YWJj\"", "616263"},
      {"|S3", "\"YWI\"", "616200"},      // without padding
      {"|S3", "\"YWI===\"", "616200"},   // with too much of it
      {"|S3", "\"YR==\"", "610000"},     // bits behind the last byte
      {"|S3", "\"Y\"", nullptr},         // not a byte
      {"|S3", "\"YWJjY\"", nullptr},     // not a byte
      {"|S3", "\"-_==\"", nullptr},      // the alphabet of URLs
      {"|S3", "\"Y W I=\"", nullptr},    // white space
      {"|S3", "\"YQ==YQ==\"", nullptr},  // padding inside
      {"|V3", "\"\"", "000000"},
      {"|V3", "\"AQID\"", "010203"},
      {"|V3", "\"AQI=\"", nullptr},
      {"|V3", "5", nullptr},
      {"<U2", "\"\\u00e9\"", "e900000000000000"},
      {">U2", "\"\\u00e9\"", "000000e900000000"},
      {"<U1", "\"ab\"", nullptr},
      {"<M8[s]", "\"NaT\"", "0000000000000080"},
      {">M8[s]", "3", "0000000000000003"},
      {"<M8[s]", "\"x\"", nullptr},
  };
  for (const auto& fill : kFills) {
    const std::string text =
        with(with(kV2, "dtype", fmt::format("\"{}\"", fill.dtype)), "fill_value", fill.fill);
    if (fill.expect) {
      EXPECT_EQ(to_hex(parse_zarray(text).fill_value), fill.expect)
          << fill.dtype << " " << fill.fill;
    } else {
      EXPECT_THAT([&] { parse_zarray(text); }, FailsWith(Code::kDataLoss, "fill_value"))
          << fill.dtype << " " << fill.fill;
    }
  }
}

TEST(FillValue, V3) {
  const struct {
    const char* type;
    const char* fill;
    const char* expect;
  } kFills[] = {
      {"int16", "5.0", "0500"},
      {"int16", "40000", nullptr},
      {"int4", "-8", "f8"},
      {"int4", "8", nullptr},
      {"bool", "true", "01"},
      {"bool", "0", "00"},
      {"bool", "1", "01"},
      {"bool", "-2.5", "01"},
      {"bool", "null", "00"},
      {"bool", "\"false\"", nullptr},
      {"bool", "[]", nullptr},
      {"float32", "\"0x7fc00001\"", "0100c07f"},
      {"float32", "\"0x7fc0\"", nullptr},
      {"float32", "\"1.5\"", nullptr},
      {"float32", "\"0x7fc0000g\"", nullptr},
      {"float64", "\"NaN\"", "000000000000f87f"},
      {"bfloat16", "\"0x7fc1\"", "c17f"},
      {"float8_e4m3fn", "\"-Infinity\"", "ff"},
      {"float4_e2m1fn", "\"NaN\"", "08"},
      {"float4_e2m1fn", "\"Infinity\"", "07"},
      {"float8_e3m4", "\"NaN\"", "78"},
      {"complex64", "[\"0x00000001\",2]", "0100000000000040"},
      {"complex64", "1", nullptr},
      {"complex64", "\"AAAAAAAAAAA=\"", nullptr},
  };
  for (const auto& fill : kFills) {
    const std::string text =
        with(with(kV3, "data_type", fmt::format("\"{}\"", fill.type)), "fill_value", fill.fill);
    if (fill.expect) {
      EXPECT_EQ(to_hex(parse_zarr_json(text).fill_value), fill.expect)
          << fill.type << " " << fill.fill;
    } else {
      EXPECT_THAT([&] { parse_zarr_json(text); }, FailsWith(Code::kDataLoss, "fill_value"))
          << fill.type << " " << fill.fill;
    }
  }
}

// ---- opening ----

TEST(Open, FindsTheFormatAndNamesWhatIsMissing) {
  const StorePtr store = make_memory_store();
  EXPECT_THAT([&] { ZarrArray::open(store, "a"); }, FailsWith(Code::kNotFound, "a/.zarray"));
  store->write("a/zarr.json", as_bytes(kV3));
  EXPECT_EQ(ZarrArray::open(store, "a").metadata().zarr_format, 3);
  EXPECT_THAT([&] { ZarrArray::open(store, "a", 2); }, FailsWith(Code::kNotFound, "a/.zarray"));
  store->write(".zarray", as_bytes(kV2));
  EXPECT_EQ(ZarrArray::open(store, "").chunk_key(std::vector<std::int64_t>{1, 0}), "1.0");
  store->write("b/.zarray", as_bytes("{"));
  EXPECT_THAT([&] { ZarrArray::open(store, "b"); }, FailsWith(Code::kDataLoss, "b/.zarray"));
}

TEST(Open, CacheParsesATextOnce) {
  const StorePtr store = make_memory_store();
  store->write("a/.zarray", as_bytes(kV2));
  store->write("b/.zarray", as_bytes(kV2));
  store->write("c/zarr.json", as_bytes(kV3));
  MetadataCache cache;
  const ZarrArray a = ZarrArray::open(store, "a", 0, &cache);
  EXPECT_EQ(&a.metadata(), &ZarrArray::open(store, "b", 0, &cache).metadata());
  EXPECT_EQ(ZarrArray::open(store, "c", 0, &cache).metadata().zarr_format, 3);
  EXPECT_THAT([&] { cache.parse(2, "{}"); }, FailsWith(Code::kDataLoss));
}

}  // namespace
}  // namespace cairn::zarr
