// metadata_text_test.cc -- metadata that TensorStore wrote, read and written again: the same bytes.
// New arrays as Orbax's.
#include <cairn/zarr/read/array.h>
#include <gtest/gtest.h>
#include <tests/support/matchers.h>
#include <tests/zarr/golden.h>

namespace cairn::zarr {
namespace {

using cairn::testing::FailsWith;

TEST(MetadataText, IsWhatTensorStoreWrote) {
  int checked = 0;
  for (const testing::GoldenArray& array : testing::tensorstore_arrays()) {
    if (array.name == "v3 codec transpose twice") continue;  // one is as good
    for (const auto& [key, value] : array.keys) {
      const std::string_view text = as_text(value);
      if (!key.ends_with(".zarray") && !key.ends_with("zarr.json")) continue;
      EXPECT_EQ(
          metadata_text(key.ends_with("zarr.json") ? parse_zarr_json(text) : parse_zarray(text)),
          text)
          << array.name;
      ++checked;
    }
  }
  EXPECT_GT(checked, 30);
}

TEST(MetadataText, NewArraysAreOrbaxs) {
  const NewArray array{.shape = {4, 4}, .chunk_shape = {1, 4}};
  EXPECT_EQ(
      metadata_text(make_metadata(array)),
      R"({"chunks":[1,4],"compressor":{"id":"zstd","level":1},"dimension_separator":".","dtype":"<f4","fill_value":null,)"
      R"("filters":null,"order":"C","shape":[4,4],"zarr_format":2})");
  NewArray v3 = array;
  v3.zarr_format = 3;
  EXPECT_EQ(
      metadata_text(make_metadata(v3)),
      R"({"chunk_grid":{"configuration":{"chunk_shape":[1,4]},"name":"regular"},"chunk_key_encoding":{"name":"default"},"codecs":[)"
      R"({"configuration":{"chunk_shape":[1,4],"codecs":[{"configuration":{"endian":"little"},"name":"bytes"},)"
      R"({"configuration":{"checksum":false,"level":3},"name":"zstd"}],"index_codecs":[{"configuration":{"endian":"little"},)"
      R"("name":"bytes"},{"name":"crc32c"}]},"name":"sharding_indexed"}],"data_type":"float32","fill_value":0.0,)"
      R"("node_type":"array","shape":[4,4],"zarr_format":3})");
  const NewArray scalar{
      .shape = {}, .chunk_shape = {}, .dtype = DType::kBool, .compression = Compression::kNone};
  EXPECT_EQ(
      metadata_text(make_metadata(scalar)),
      R"({"chunks":[],"compressor":null,"dimension_separator":".","dtype":"|b1","fill_value":null,"filters":null,"order":"C",)"
      R"("shape":[],"zarr_format":2})");
}

TEST(MetadataText, IsReadAsWhatItWasMadeFrom) {
  for (const int format : {2, 3})
    for (const Compression compression : {Compression(), Compression(Compression::kNone),
                                          Compression::zstd(7), Compression::blosc()}) {
      const ArrayMetadata made = make_metadata({.zarr_format = format,
                                                .shape = {5, 4},
                                                .chunk_shape = {2, 4},
                                                .dtype = DType::kBfloat16,
                                                .compression = compression});
      const std::string text = metadata_text(made);
      const ArrayMetadata read = format == 3 ? parse_zarr_json(text) : parse_zarray(text);
      EXPECT_EQ(metadata_text(read), text);
      EXPECT_EQ(read.codecs.steps, made.codecs.steps);
      EXPECT_EQ(read.fill_value, made.fill_value);
      EXPECT_EQ(read.inner_chunk_shape, made.inner_chunk_shape);
      EXPECT_EQ(read.codecs.nbytes, made.codecs.nbytes);
    }
}

TEST(MetadataText, RefusesWhatTensorStoreWouldNotRead) {
  const auto text = [](const char* json) { return [json] { metadata_text(parse_zarray(json)); }; };
  EXPECT_THAT(
      text(
          R"({"zarr_format":2,"shape":[4],"chunks":[2],"dtype":"<i4","compressor":null,"filters":[{"id":"shuffle"}]})"),
      FailsWith(Code::kUnimplemented, "filters"));
  EXPECT_THAT(
      text(R"({"zarr_format":2,"shape":[4],"chunks":[2],"dtype":"<i4","compressor":{"id":"lz4"}})"),
      FailsWith(Code::kUnimplemented, "lz4"));
}

TEST(NewArray, RefusesWhatCannotBe) {
  const auto make = [](const NewArray& array) { return [array] { make_metadata(array); }; };
  EXPECT_THAT(make({.shape = {4}, .chunk_shape = {0}}), FailsWith(Code::kInvalidArgument, "(0,)"));
  EXPECT_THAT(make({.shape = {4}, .chunk_shape = {2, 2}}),
              FailsWith(Code::kInvalidArgument, "(2, 2)"));
  EXPECT_THAT(make({.shape = {-4}, .chunk_shape = {2}}),
              FailsWith(Code::kInvalidArgument, "(-4,)"));
  EXPECT_THAT(make({.zarr_format = 3, .shape = {4}, .chunk_shape = {4}, .inner_chunk_shape = {3}}),
              FailsWith(Code::kInvalidArgument, "does not divide"));
  EXPECT_THAT(make({.shape = {4}, .chunk_shape = {4}, .inner_chunk_shape = {2}}),
              FailsWith(Code::kInvalidArgument, "Zarr v2"));
  EXPECT_THAT(make({.shape = Shape(33, 1), .chunk_shape = Shape(33, 1)}),
              FailsWith(Code::kInvalidArgument, "rank 33"));
  EXPECT_THAT(make({.shape = {4}, .chunk_shape = {4}, .dtype = DType::kUint4}),
              FailsWith(Code::kUnimplemented, "uint4"));
}

}  // namespace
}  // namespace cairn::zarr
