// array_spec_test.cc -- specs spelled out, the worked examples of chunk shapes, and everything that
// is refused; the comparison with the real package over random options is in
// tests/interop/array_spec_test.py.
#include <cairn/base/json/json.h>
#include <cairn/orbax/array_spec.h>
#include <gtest/gtest.h>
#include <tests/support/matchers.h>

#include <cstdlib>
#include <functional>
#include <map>

namespace cairn {
namespace {

using cairn::testing::FailsWith;

std::string sorted_text(const Json& json) {
  if (const JsonArray* items = json.as_array()) {
    std::string text = "[";
    for (const Json& item : *items) text += sorted_text(item) + ",";
    return text + "]";
  }
  const JsonObject* members = json.as_object();
  if (!members) return to_text(json);
  std::map<std::string, std::string> sorted;
  for (const auto& [key, value] : *members) sorted[key] = sorted_text(value);
  std::string text = "{";
  for (const auto& [key, value] : sorted) text.append(key).append(":").append(value).append(",");
  return text + "}";
}

void expect_json(const std::string& got, const std::string& expect) {
  EXPECT_EQ(sorted_text(parse_json(got)), sorted_text(parse_json(expect))) << got;
}

TEST(ArrayReadSpec, OfADatabase) {
  expect_json(
      ArrayReadSpec({.directory = "/ckpt/", .relative_array_filename = "params.w"}).json(),
      R"({"driver":"zarr","fill_missing_data_reads":false,"recheck_cached_data":false,"recheck_cached_metadata":false,
                  "kvstore":{"driver":"ocdbt","path":"params.w","cache_pool":"cache_pool#ocdbt",
                    "base":{"driver":"file","path":"/ckpt/","file_io_locking":{"mode":"non_atomic"}},
                    "manifest":{"driver":"file","path":"/ckpt/"}}})");
}

TEST(ArrayReadSpec, OfFoldersCast) {
  const ArrayReadSpec spec({.directory = "/ckpt/a/..",
                            .relative_array_filename = "w",
                            .use_zarr3 = true,
                            .use_ocdbt = false,
                            .metadata_key = "meta",
                            .raise_array_data_missing_error = false,
                            .target_dtype = DType::kBfloat16});
  expect_json(
      spec.json(),
      R"({"driver":"cast","dtype":"bfloat16","base":{"driver":"zarr3","fill_missing_data_reads":true,
      "recheck_cached_data":false,"recheck_cached_metadata":false,"metadata_key":"meta","kvstore":{"driver":"file","path":"/ckpt/w"}}})");
}

TEST(ArrayWriteSpec, OfOneProcess) {
  const ArrayWriteSpec spec({.directory = "/ckpt",
                             .relative_array_filename = "w",
                             .global_shape = {8, 6},
                             .write_shape = {4, 6},
                             .dtype = DType::kFloat32,
                             .target_dtype = DType::kBfloat16,
                             .chunk_byte_size = 16,
                             .process_id = "0",
                             .ext_metadata = R"({"random_key_impl":"rbg"})"});
  expect_json(spec.json(),
              R"({"driver":"cast","dtype":"float32","base":{"driver":"zarr","dtype":"bfloat16",
      "recheck_cached_data":false,"recheck_cached_metadata":false,"store_data_equal_to_fill_value":true,
      "metadata":{"shape":[8,6],"chunks":[1,6],"compressor":{"id":"zstd","level":1}},
      "kvstore":{"driver":"ocdbt","path":"w","cache_pool":"cache_pool#ocdbt","target_data_file_size":2147483648,"assume_config":true,
        "config":{"max_inline_value_bytes":1024,"max_decoded_node_bytes":100000000,"manifest_kind":"single"},
        "base":{"driver":"file","path":"/ckpt/ocdbt.process_0/","file_io_locking":{"mode":"non_atomic"}},
        "manifest":{"driver":"file","path":"/ckpt/ocdbt.process_0/"}}}})");
  const ArrayMetadata expect{.param_name = "w",
                             .shape = {8, 6},
                             .dtype = DType::kBfloat16,
                             .write_shape = {4, 6},
                             .chunk_shape = {1, 6},
                             .use_ocdbt = true,
                             .use_zarr3 = false,
                             .ext_metadata = R"({"random_key_impl":"rbg"})",
                             .compression_algorithm = "zstd",
                             .compression_level = 1};
  EXPECT_EQ(spec.metadata(), expect);
}

// The table of the worked examples: what Orbax 0.12.8 answers.
TEST(ChooseChunkShape, AsOrbax) {
  const struct {
    Shape global, write;
    DType dtype;
    std::optional<std::int64_t> target;
    std::vector<std::int64_t> axes;
    Shape expect;
  } cases[] = {
      {{1024, 1024}, {1024, 1024}, DType::kFloat32, 1048576, {}, {512, 512}},
      {{1024, 1024}, {256, 1024}, DType::kFloat32, 262144, {}, {64, 1024}},
      {{100, 30}, {100, 30}, DType::kFloat32, 1000, {}, {10, 15}},
      {{100, 30}, {50, 30}, DType::kFloat32, 1000, {}, {5, 30}},
      {{8, 6, 10}, {8, 3, 10}, DType::kFloat32, 80, {}, {4, 1, 5}},
      {{7, 11}, {7, 11}, DType::kFloat32, 100, {}, {7, 1}},
      {{12, 12}, {12, 12}, DType::kFloat32, 200, {}, {6, 6}},
      {{12, 12}, {12, 6}, DType::kFloat32, 200, {}, {12, 3}},
      {{16}, {16}, DType::kBfloat16, 10, {}, {4}},
      {{6, 6}, {3, 6}, DType::kFloat32, 16, {}, {1, 3}},
      {{32000, 4096}, {4000, 4096}, DType::kBfloat16, 16 << 20, {}, {2000, 4096}},
      {{32000, 4096}, {32000, 4096}, DType::kBfloat16, 16 << 20, {}, {4000, 2048}},
      {{64, 64}, {64, 64}, DType::kFloat32, {}, {1}, {64, 1}},
      {{64, 64}, {64, 64}, DType::kFloat32, 512, {0, 1}, {1, 1}},
      {{64, 64}, {64, 64}, DType::kFloat32, 64, {1}, {16, 1}},
      {{}, {}, DType::kFloat32, 4, {}, {}},
  };
  for (const auto& c : cases)
    EXPECT_EQ(choose_chunk_shape({.global_shape = c.global,
                                  .write_shape = c.write,
                                  .dtype = c.dtype,
                                  .target_byte_size = c.target,
                                  .shard_axes = c.axes}),
              c.expect)
        << shape_text(c.global) << " " << shape_text(c.write);
}

TEST(ChunkByteSize, TheDefaultIsThatOfTheStore) {
  const auto bytes = [](std::optional<std::string> store) {
    return calculate_chunk_byte_size({.write_shape = {1 << 20, 1 << 10},
                                      .dtype = DType::kFloat32,
                                      .kvstore_spec = std::move(store)});
  };
  constexpr std::int64_t kGcs = 400 << 20;
  constexpr std::int64_t kDefault = std::int64_t{2} << 30U;
  EXPECT_EQ(bytes({}), kDefault);
  EXPECT_EQ(bytes(R"({"base":{"driver":"file","path":"/x"}})"), kDefault);
  EXPECT_EQ(bytes(R"({"base":"gs://bucket/x"})"), kGcs);
  EXPECT_EQ(bytes(R"({"base":{"driver":"gcs_grpc"}})"), kGcs);
  EXPECT_EQ(bytes(R"({"base":{"driver":"other","path":"gs://bucket/x"}})"), kGcs);
  EXPECT_EQ(bytes(R"({"base":{"driver":"kvstack","layers":[{"base":{"driver":"gcs"}}]}})"), kGcs);
  EXPECT_EQ(bytes(R"({"base":{"driver":"kvstack","layers":[{"prefix":"a","base":"gs://b"}]}})"),
            kDefault);
  EXPECT_THAT([&] { bytes("[]"); }, FailsWith(Code::kInvalidArgument, "JSON object, not"));
}

TEST(CastSpecs, WrapAnySpec) {
  EXPECT_EQ(get_cast_tspec_deserialize(R"({"driver":"n5"})", DType::kBfloat16),
            R"({"driver":"cast","dtype":"bfloat16","base":{"driver":"n5"}})");
  EXPECT_EQ(get_cast_tspec_deserialize(R"({"driver":"n5"})", std::nullopt), R"({"driver":"n5"})");
  EXPECT_EQ(get_cast_tspec_serialize(R"({"driver":"n5"})", DType::kFloat32),
            R"({"driver":"cast","dtype":"float32","base":{"driver":"n5","dtype":"float32"}})");
  EXPECT_EQ(
      get_cast_tspec_serialize(R"({"dtype":"int8","driver":"n5"})", DType::kFloat32, DType::kInt4),
      R"({"driver":"cast","dtype":"float32","base":{"dtype":"int4","driver":"n5"}})");
  for (const char* bad : {"[]", "\"gs://x\"", "{", ""})
    EXPECT_THAT([&] { get_cast_tspec_deserialize(bad, DType::kInt8); },
                FailsWith(Code::kInvalidArgument, "TensorStore spec"))
        << bad;
}

TEST(ChunkByteSize, NoChunkIsLargerThanADataFile) {
  const auto bytes = [](std::optional<std::int64_t> chunk, std::int64_t file) {
    return calculate_chunk_byte_size(
        {.write_shape = {1000}, .chunk_byte_size = chunk, .ocdbt_target_data_file_size = file});
  };
  EXPECT_EQ(bytes({}, 1000), 1000);
  EXPECT_EQ(bytes({}, 4000), std::nullopt);
  EXPECT_EQ(bytes({}, 0), std::nullopt);
  EXPECT_EQ(bytes(8000, 0), 8000);
  EXPECT_EQ(bytes(8000, 1000), 1000);
  EXPECT_EQ(bytes(80, 1000), 80);
}

TEST(OcdbtProcessSpec, FoldersAndBack) {
  for (const OcdbtProcessSpec& spec :
       {OcdbtProcessSpec{"0"}, OcdbtProcessSpec{"a7", true}, OcdbtProcessSpec{"replica"}})
    EXPECT_EQ(OcdbtProcessSpec::parse(spec.folder()), spec);
  EXPECT_EQ(OcdbtProcessSpec({"3", true}).folder(), "ocdbt.process_replica_3");
  for (const char* bad :
       {"", "ocdbt.process_", "ocdbt.process_0_1", "ocdbt.process_replica_", "process_0"})
    EXPECT_THAT([&] { OcdbtProcessSpec::parse(bad); },
                FailsWith(Code::kInvalidArgument, std::string("\"") + bad + "\""))
        << bad;
}

TEST(GcsBackend, IsChosenByTheEnvironment) {
  const std::string before =
      build_kvstore_tspec({.directory = "gs://bucket/a", .name = "w", .use_ocdbt = false});
  expect_json(before, R"({"driver":"gcs","bucket":"bucket","path":"a/w"})");
  ASSERT_EQ(setenv("TENSORSTORE_GCS_BACKEND", "gcs_grpc", 1), 0);
  const std::string after =
      build_kvstore_tspec({.directory = "gs://bucket/a", .name = "w", .use_ocdbt = false});
  ASSERT_EQ(unsetenv("TENSORSTORE_GCS_BACKEND"), 0);
  expect_json(after, R"({"driver":"gcs_grpc","bucket":"bucket","path":"a/w"})");
}

TEST(ArraySpecs, Refused) {
  const ArrayWriteSpecOptions good{
      .directory = "/c", .relative_array_filename = "w", .global_shape = {4}, .write_shape = {4}};
  const auto write = [&](const std::function<void(ArrayWriteSpecOptions&)>& change) {
    ArrayWriteSpecOptions options = good;
    change(options);
    return [options] { (void)ArrayWriteSpec(options); };
  };
  const auto kInvalid = Code::kInvalidArgument;
  EXPECT_THAT(write([](auto& o) { o.directory = "c"; }), FailsWith(kInvalid, "absolute"));
  EXPECT_THAT(write([](auto& o) { o.directory = "s3://bucket/c"; }),
              FailsWith(kInvalid, "absolute"));
  EXPECT_THAT(write([](auto& o) { o.directory = "gs://[/c"; }), FailsWith(kInvalid, "no bucket"));
  EXPECT_THAT(write([](auto& o) { o.process_id = "a-b"; }), FailsWith(kInvalid, "\"a-b\""));
  EXPECT_THAT(write([](auto& o) {
                o.process_id = "";
                o.use_ocdbt = false;
              }),
              FailsWith(kInvalid, "process id"));
  EXPECT_THAT(write([](auto& o) { o.ocdbt_target_data_file_size = -1; }),
              FailsWith(kInvalid, "-1 bytes"));
  EXPECT_THAT(write([](auto& o) { o.write_shape = {4, 1}; }), FailsWith(kInvalid, "rank"));
  EXPECT_THAT(write([](auto& o) { o.chunk_byte_size = 3; }), FailsWith(kInvalid, "elements of 4"));
  EXPECT_THAT(write([](auto& o) { o.shard_axes = {1}; }), FailsWith(kInvalid, "axis 1"));
  EXPECT_THAT(write([](auto& o) { o.shard_axes = {-1}; }), FailsWith(kInvalid, "axis -1"));
  EXPECT_THAT(write([](auto& o) { o.dtype = DType::kOpaque; }), FailsWith(kInvalid, "interpret"));
  EXPECT_THAT(
      [] {
        build_kvstore_tspec({.directory = "/c",
                             .write = OcdbtWriteOptions{.mode = OcdbtWriteMode::kCommitTemporary}});
      },
      FailsWith(kInvalid, "temporary_metadata"));
  EXPECT_THAT(
      [] {
        build_kvstore_tspec({.directory = "/c",
                             .write = OcdbtWriteOptions{.mode = OcdbtWriteMode::kMerge},
                             .temporary_metadata = "/t"});
      },
      FailsWith(kInvalid, "merged"));
  EXPECT_THAT([] { (void)get_ts_context({.file_io_concurrency_limit = 0}); },
              FailsWith(kInvalid, "file_io_concurrency"));
  EXPECT_THAT([] { (void)is_remote_storage(R"({"base":[]})"); }, FailsWith(kInvalid, "an array"));
}

}  // namespace
}  // namespace cairn
