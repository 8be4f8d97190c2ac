// tensorstore_spec_test.cc -- arrays and JSON values opened by spec: stores in memory, what is
// shared and what is not, and what is refused, by its place. What TensorStore makes of the same
// specs is in tests/interop/tensorstore_spec_test.py.
#include <cairn/array/box.h>
#include <cairn/base/executor.h>
#include <cairn/ocdbt/format/manifest.h>
#include <cairn/storage/tensorstore_spec.h>
#include <gtest/gtest.h>
#include <tests/support/matchers.h>
#include <tests/support/temp_dir.h>

#include <numeric>

namespace cairn {
namespace {

using cairn::testing::FailsWith;
using cairn::testing::TempDir;

std::vector<float> floats(const Array& array) {
  const auto* first = reinterpret_cast<const float*>(array.bytes().data());
  return {first, first + array.bytes().size() / sizeof(float)};
}

ArrayView view(const std::vector<float>& values, Shape shape) {
  return make_view(std::as_bytes(std::span(values)), DType::kFloat32, std::move(shape));
}

std::vector<float> counting(std::size_t n) {
  std::vector<float> values(n);
  std::iota(values.begin(), values.end(), 1.0F);
  return values;
}

constexpr const char* kInMemory =
    R"({"driver":"zarr","kvstore":{"driver":"memory","path":"w"},"dtype":"float32",
    "metadata":{"shape":[4,3],"chunks":[2,2],"compressor":null}})";

TEST(SpecArray, ReadsWhatItWrote) {
  SpecArray array = open_array_spec(kInMemory, {.create = true});
  EXPECT_EQ(floats(array.read()), std::vector<float>(12, 0));
  const auto values = counting(12);
  array.write(Box::whole({4, 3}), view(values, {4, 3}));
  EXPECT_EQ(floats(array.read()), values);
  const std::vector<float> two = {-1, -2};
  array.write({.origin = {1, 1}, .shape = {1, 2}}, view(two, {1, 2}));
  auto expect = values;
  expect[4] = -1;
  expect[5] = -2;
  EXPECT_EQ(floats(array.read()), expect);
}

TEST(SpecArray, MemoryIsSharedByContextAndName) {
  const SpecContext context;
  SpecArray made = open_array_spec(kInMemory, {.create = true, .context = context});
  made.write(Box::whole({4, 3}), view(counting(12), {4, 3}));
  EXPECT_EQ(floats(open_array_spec(kInMemory, {.context = context}).read()), counting(12));
  EXPECT_EQ(
      floats(open_array_spec(R"({"driver":"zarr","kvstore":"memory://w"})", {.context = context})
                 .read()),
      counting(12));
  EXPECT_THAT([] { open_array_spec(kInMemory); }, FailsWith(Code::kNotFound, "memory://w/.zarray"));
  const char* const other =
      R"({"driver":"zarr","kvstore":{"driver":"memory","path":"w","memory_key_value_store":"memory_key_value_store#b"}})";
  EXPECT_THAT([&] { open_array_spec(other, {.context = context}); }, FailsWith(Code::kNotFound));
  EXPECT_EQ(context.memory_store()->list("").size(), 5U);
  EXPECT_TRUE(context.memory_store("b")->list("").empty());
}

TEST(SpecArray, ChunksOfTheFillValueAreStoredOnlyIfAsked) {
  for (const bool store : {false, true}) {
    const SpecContext context;
    const std::string spec =
        std::string(R"({"driver":"zarr","kvstore":"memory://","store_data_equal_to_fill_value":)") +
        (store ? "true" : "false") +
        R"(,"create":true,"metadata":{"shape":[4],"chunks":[2],"dtype":"<f4","fill_value":1.0}})";
    SpecArray array = open_array_spec(spec, {.context = context});
    array.write(Box::whole({4}), view({1, 1, 1, 2}, {4}));
    EXPECT_EQ(context.memory_store()->list("").size(), store ? 3U : 2U);
    EXPECT_EQ(floats(array.read()), (std::vector<float>{1, 1, 1, 2}));
    const char* const strict =
        R"({"driver":"zarr","kvstore":"memory://","fill_missing_data_reads":false})";
    const SpecArray again = open_array_spec(strict, {.context = context});
    if (store) {
      EXPECT_EQ(floats(again.read()), (std::vector<float>{1, 1, 1, 2}));
    } else {
      EXPECT_THAT([&] { (void)again.read(); }, FailsWith(Code::kDataLoss, "0"));
    }
  }
}

TEST(SpecArray, EachWriteToADatabaseIsOneCommit) {
  const SpecContext context;
  const std::string spec =
      R"({"driver":"zarr3","dtype":"float32","kvstore":{"driver":"ocdbt","base":"memory://db","path":"w","manifest":"memory://m/",
      "config":{"max_inline_value_bytes":0}},"metadata":{"shape":[64],"chunk_grid":{"name":"regular","configuration":{"chunk_shape":[4]}}}})";
  SpecArray array = open_array_spec(spec, {.create = true, .context = context});
  array.write(Box::whole({64}), view(counting(64), {64}));
  array.write({.origin = {3}, .shape = {2}}, view({-1, -2}, {2}));
  EXPECT_FALSE(context.memory_store()->size("db/manifest.ocdbt"));
  const auto manifest = context.memory_store()->read("m/manifest.ocdbt", {});
  ASSERT_TRUE(manifest);
  EXPECT_EQ(ocdbt::decode_manifest(*manifest).versions.back().generation, 3U);
  auto expect = counting(64);
  expect[3] = -1;
  expect[4] = -2;
  EXPECT_EQ(floats(array.read()), expect);
  EXPECT_EQ(floats(open_array_spec(spec, {.context = context}).read()), expect);
}

TEST(SpecArray, AManifestInAnotherMemoryOfTheSamePathIsAnother) {
  const SpecContext context;
  (void)open_array_spec(
      R"({"driver":"zarr","dtype":"int8","metadata":{"shape":[1]},"kvstore":{"driver":"ocdbt","base":"memory://db/","path":"w",
      "manifest":{"driver":"memory","path":"db/","memory_key_value_store":"memory_key_value_store#b"}}})",
      {.create = true, .context = context});
  EXPECT_FALSE(context.memory_store()->size("db/manifest.ocdbt"));
  EXPECT_TRUE(context.memory_store("b")->size("db/manifest.ocdbt"));
}

TEST(SpecArray, ManyThreadsReadWhileOneWrites) {
  SpecArray array = open_array_spec(
      R"({"driver":"cast","dtype":"float32","base":{"driver":"zarr","dtype":"int32","create":true,
      "kvstore":{"driver":"ocdbt","base":"memory://"},"metadata":{"shape":[64],"chunks":[64]}}})");
  Executor executor(4);
  executor.for_each(32, [&](std::size_t i) {
    if (i % 4 == 0)
      return array.write(Box::whole({64}),
                         view(std::vector<float>(64, static_cast<float>(i)), {64}));
    const auto values = floats(array.read());
    for (const float value : values) EXPECT_EQ(value, values[0]);
  });
}

TEST(SpecArray, DeleteExistingRemovesWhatIsBelowAndNothingElse) {
  const TempDir dir;
  const std::string spec = R"({"driver":"zarr","kvstore":"file://)" + dir.path() +
                           R"(/a/w","dtype":"float32","metadata":{"shape":[4],"chunks":[2]}})";
  SpecArray array = open_array_spec(spec, {.create = true});
  array.write(Box::whole({4}), view(counting(4), {4}));
  const StorePtr files = open_file_store(dir.path());
  files->write("a/wide", as_bytes("stays"));
  EXPECT_THAT([&] { open_array_spec(spec, {.create = true}); },
              FailsWith(Code::kAlreadyExists, "a/w/.zarray"));
  EXPECT_EQ(
      floats(
          open_array_spec(spec, {.open = false, .create = true, .delete_existing = true}).read()),
      std::vector<float>(4, 0));
  EXPECT_EQ(files->list("").size(), 2U);
  const char* const everything =
      R"({"driver":"zarr","kvstore":{"driver":"file"},"create":true,"delete_existing":true,"dtype":"int8","metadata":{"shape":[1]}})";
  EXPECT_THAT([&] { open_array_spec(everything); },
              FailsWith(Code::kInvalidArgument, "everything"));
}

TEST(SpecArray, RefusesWrongBoxesAndTypes) {
  SpecArray array = open_array_spec(kInMemory, {.create = true});
  const auto values = counting(12);
  EXPECT_THAT(
      [&] {
        array.write({.origin = {1, 0}, .shape = {4, 3}}, view(values, {4, 3}));
      },
      FailsWith(Code::kOutOfRange));
  EXPECT_THAT(
      [&] {
        array.write(Box::whole({4, 3}), view(values, {3, 4}));
      },
      FailsWith(Code::kInvalidArgument, "shape"));
  EXPECT_THAT([&] { array.write(Box::whole({12}), view(values, {12})); },
              FailsWith(Code::kInvalidArgument, "shape"));
  EXPECT_THAT(
      [&] {
        array.write(Box::whole({4, 3}),
                    make_view(std::as_bytes(std::span(values)), DType::kInt32, {4, 3}));
      },
      FailsWith(Code::kInvalidArgument, "int32"));
}

TEST(SpecArray, RefusesDamage) {
  const SpecContext context;
  context.memory_store()->write("w/.zarray", as_bytes("{\"zarr_format\":2"));
  EXPECT_THAT([&] { open_array_spec(kInMemory, {.context = context}); },
              FailsWith(Code::kDataLoss, "memory://w/.zarray"));
  context.memory_store()->write("manifest.ocdbt", as_bytes("no manifest"));
  EXPECT_THAT(
      [&] {
        open_array_spec(R"({"driver":"zarr","kvstore":{"driver":"ocdbt","base":"memory://"}})",
                        {.context = context});
      },
      FailsWith(Code::kDataLoss, "manifest.ocdbt"));
}

TEST(SpecArray, RefusesByPlace) {
  const struct {
    const char* spec;
    Code code;
    const char* expect;
  } cases[] = {
      {"", Code::kInvalidArgument, "spec: "},
      {"{\"driver\":", Code::kInvalidArgument, "spec: "},
      {"[]", Code::kInvalidArgument, "spec: expected an object"},
      {R"({"driver":"n5"})", Code::kUnimplemented, "spec /driver: "},
      {R"({"driver":"json","kvstore":"memory://x"})", Code::kInvalidArgument, "open_json_spec"},
      {R"({"driver":"zarr"})", Code::kInvalidArgument, "spec /kvstore: is missing"},
      {R"({"driver":"zarr","kvstore":"hf://b/x"})", Code::kUnimplemented, "spec /kvstore: "},
      {R"({"driver":"zarr","kvstore":"file://relative"})", Code::kInvalidArgument,
       "spec /kvstore: "},
      {R"({"driver":"zarr","kvstore":"memory://%4"})", Code::kInvalidArgument, "spec /kvstore: "},
      {R"({"driver":"zarr","kvstore":{"driver":"memory","memory_key_value_store":"cache_pool"}})",
       Code::kInvalidArgument, "/kvstore/memory_key_value_store: "},
      {R"({"driver":"zarr","kvstore":{"driver":"memory","a/b~c":1}})", Code::kInvalidArgument,
       "spec /kvstore/a~1b~0c: "},
      {R"({"driver":"zarr","kvstore":{"driver":"ocdbt","base":{"driver":"ocdbt","base":"memory://"}}})",
       Code::kUnimplemented, "spec /kvstore/base: "},
      {R"({"driver":"zarr","kvstore":{"driver":"ocdbt","base":"memory://","coordinator":{}}})",
       Code::kUnimplemented, "spec /kvstore/coordinator: "},
      {R"({"driver":"zarr","kvstore":"memory://","field":"x"})", Code::kUnimplemented,
       "spec /field: "},
      {R"({"driver":"zarr","kvstore":"memory://","metadata_key":""})", Code::kInvalidArgument,
       "spec /metadata_key: "},
      {R"({"driver":"zarr","kvstore":"memory://","create":true,"dtype":"int8","metadata":{"shape":[4],"chunks":[9223372036854775807]}})",
       Code::kInvalidArgument, "spec /metadata: "},
      {R"({"driver":"zarr","kvstore":"memory://","create":true,"metadata":{"shape":[4],"dtype":"|S5"}})",
       Code::kUnimplemented, "spec /metadata: "},
      {R"({"driver":"zarr","kvstore":"memory://","create":true,"dtype":"int8","metadata":{"shape":[9223372036854775807,9]}})",
       Code::kUnimplemented, "spec /metadata/chunks: "},
      {R"({"driver":"zarr","kvstore":"memory://","transform":{"input_labels":["x"]}})",
       Code::kUnimplemented, "spec /transform/input_labels: "},
      {R"({"driver":"zarr","kvstore":"memory://","schema":{"domain":{"shape":[[1,2]]}}})",
       Code::kInvalidArgument, "spec /schema/domain/shape: "},
      {R"({"driver":"cast","dtype":"int8","base":{"driver":"cast","dtype":"int16","base":{"driver":"zarr","kvstore":"memory://","x":0}}})",
       Code::kInvalidArgument, "spec /base/base/x: "},
  };
  for (const auto& c : cases)
    EXPECT_THAT([&] { open_array_spec(c.spec); }, FailsWith(c.code, c.expect)) << c.spec;
}

TEST(SpecJson, PartsOfAValue) {
  const SpecContext context;
  const OpenSpecOptions options{.context = context};
  SpecJson part = open_json_spec(
      R"({"driver":"json","kvstore":"memory://a/b","json_pointer":"/x/y~1z"})", options);
  EXPECT_THAT([&] { (void)part.read(); }, FailsWith(Code::kNotFound, "memory://a/b"));
  part.write(R"([1, "two"])");
  EXPECT_EQ(part.read(), R"([1,"two"])");
  open_json_spec(R"({"driver":"json","kvstore":"memory://a/b","json_pointer":"/x/y~1z/0"})",
                 options)
      .write("null");
  EXPECT_EQ(open_json_spec(R"({"driver":"json","kvstore":"memory://a/b"})", options).read(),
            R"({"x":{"y/z":[null,"two"]}})");
  EXPECT_THAT([&] { part.write("{"); }, FailsWith(Code::kDataLoss, "the value to be written"));
  EXPECT_EQ(part.read(), R"([null,"two"])");
}

TEST(SpecJson, WritersOfOneValueDoNotLoseEachOthersParts) {
  const SpecContext context;
  Executor executor(4);
  executor.for_each(32, [&](std::size_t i) {
    const std::string spec =
        R"({"driver":"json","kvstore":"memory://_sharding","json_pointer":"/)" + std::to_string(i) +
        "\"}";
    open_json_spec(spec, {.context = context}).write(std::to_string(i));
  });
  for (std::size_t i = 0; i < 32; ++i) {
    const std::string spec =
        R"({"driver":"json","kvstore":"memory://_sharding","json_pointer":"/)" + std::to_string(i) +
        "\"}";
    EXPECT_EQ(open_json_spec(spec, {.context = context}).read(), std::to_string(i));
  }
}

TEST(SpecJson, Refused) {
  const struct {
    std::string spec;
    const char* expect;
  } cases[] = {
      {R"({"driver":"zarr","kvstore":"memory://x"})", "spec /driver: "},
      {R"({"driver":"json","kvstore":"memory://"})", "spec /kvstore: "},
      {R"({"driver":"json","kvstore":"memory://x","json_pointer":"a"})", "spec /json_pointer: "},
      {R"({"driver":"json","kvstore":"memory://x","json_pointer":"/~"})", "spec /json_pointer: "},
      {R"({"driver":"json","kvstore":"memory://x","create":true})", "spec /create: "},
      {R"({"driver":"json","kvstore":"memory://x","dtype":"int8"})", "spec /dtype: "},
      {R"({"driver":"json","kvstore":"memory://x","json_pointer":")" + std::string(200, '/') +
           "\"}",
       "nested too deeply"},
  };
  for (const auto& c : cases)
    EXPECT_THAT([&] { open_json_spec(c.spec); }, FailsWith(Code::kInvalidArgument, c.expect))
        << c.spec;
}

TEST(SpecJson, WritersOfOneDatabaseDoNotLoseEachOthersParts) {
  const SpecContext context;
  const auto spec = [](std::size_t i) {
    return R"({"driver":"json","kvstore":{"driver":"ocdbt","base":"memory://db/","path":"s"},)"
           R"("json_pointer":"/)" +
           std::to_string(i) + "\"}";
  };
  Executor executor(4);
  executor.for_each(16, [&](std::size_t i) {
    open_json_spec(spec(i), {.context = context}).write(std::to_string(i));
  });
  for (std::size_t i = 0; i < 16; ++i)
    EXPECT_EQ(open_json_spec(spec(i), {.context = context}).read(), std::to_string(i));
}

// ---- stores ----

std::vector<std::string> keys(const KvStore& store) {
  std::vector<std::string> out;
  for (const ListEntry& entry : store.list("")) out.push_back(entry.key);
  return out;
}

TEST(SpecStore, APathIsAPrefixOfTheKeys) {
  const TempDir dir;
  const std::string folder = dir.path() + "/f";
  open_kv_store("file://" + folder + "/")->write("ab/c", as_bytes("1"));
  EXPECT_EQ(keys(*open_kv_store(R"({"driver":"file","path":")" + folder + "/a\"}")),
            std::vector<std::string>{"b/c"});
  const SpecContext context;
  open_kv_store("memory://ab", context)->write("c", as_bytes("2"));
  EXPECT_EQ(keys(*open_kv_store(R"("memory://a")", context)), std::vector<std::string>{"bc"});
}

constexpr const char* kDatabase = R"({"driver":"ocdbt","base":"memory://db/","path":"p/"})";

TEST(SpecStore, ADatabaseIsWrittenAndReadAtItsNewestVersion) {
  const SpecContext context;
  const StorePtr store = open_kv_store(kDatabase, context);
  EXPECT_TRUE(store->list("").empty());
  store->write("a", as_bytes("1"));
  EXPECT_EQ(keys(*open_ocdbt(prefix_store(context.memory_store(), "db/"))),
            std::vector<std::string>{"p/a"});
  open_kv_store(kDatabase, context)->write("b", as_bytes("2"));
  EXPECT_EQ(keys(*store), (std::vector<std::string>{"a", "b"}));
  EXPECT_FALSE(store->replace_if("a", std::nullopt, as_bytes("3")));
  EXPECT_FALSE(store->replace_if("a", as_bytes("2"), as_bytes("3")));
  EXPECT_TRUE(store->replace_if("a", as_bytes("1"), as_bytes("3")));
  EXPECT_TRUE(store->replace_if("c", std::nullopt, as_bytes("4")));
  EXPECT_EQ(as_text(*store->read("a", {})), "3");
  store->remove("b");
  store->remove("b");
  EXPECT_EQ(keys(*store), (std::vector<std::string>{"a", "c"}));

  // Five changes, five versions; the second removal made none.
  const std::string old = R"({"driver":"ocdbt","base":"memory://db/","path":"p/","version":2})";
  EXPECT_EQ(keys(*open_kv_store(old, context)), (std::vector<std::string>{"a", "b"}));
  EXPECT_THAT([&] { open_kv_store(old, context)->write("a", {}); },
              FailsWith(Code::kUnimplemented, "read-only"));
  const std::string later = R"({"driver":"ocdbt","base":"memory://db/","path":"p/","version":6})";
  EXPECT_THAT([&] { open_kv_store(later, context); }, FailsWith(Code::kNotFound));
}

TEST(SpecStore, ATransactionIsOneVersion) {
  const SpecContext context;
  OcdbtTransaction changes = open_kv_transaction(kDatabase, context);
  changes.write("a", as_bytes("1"));
  changes.write("b", as_bytes("2"));
  changes.require("a", std::nullopt);
  const StorePtr store = open_kv_store(kDatabase, context);
  EXPECT_TRUE(store->list("").empty());
  EXPECT_EQ(changes.commit().generation, 1U);
  EXPECT_EQ(keys(*store), (std::vector<std::string>{"a", "b"}));

  // A range never reaches beyond the prefix.
  open_kv_store(R"({"driver":"ocdbt","base":"memory://db/"})", context)->write("q", as_bytes("3"));
  OcdbtTransaction clearing = open_kv_transaction(kDatabase, context);
  clearing.remove_range({});
  EXPECT_EQ(clearing.commit().num_keys, 1U);
}

TEST(SpecStore, Refused) {
  EXPECT_THAT([] { open_kv_transaction("memory://x"); },
              FailsWith(Code::kUnimplemented, "needs a store with the driver ocdbt"));
  EXPECT_THAT([] { open_kv_transaction(R"({"driver":"ocdbt","base":"memory://x/","version":1})"); },
              FailsWith(Code::kInvalidArgument, "leave \"version\" out"));
  EXPECT_THAT([] { open_kv_store(R"({"driver":"zip","base":"memory://"})"); },
              FailsWith(Code::kUnimplemented, "spec /driver: "));
  EXPECT_THAT([] { open_kv_store("s3+http://h/b"); }, FailsWith(Code::kUnimplemented, "s3+http:"));
  EXPECT_THAT([] { open_kv_store(R"({"driver":"file","paths":"x"})"); },
              FailsWith(Code::kInvalidArgument, "spec /paths: unknown member"));
  EXPECT_THAT([] { open_kv_store("{"); }, FailsWith(Code::kInvalidArgument, "spec: "));
  const SpecContext context;
  context.memory_store()->write("db/manifest.ocdbt", as_bytes("damaged"));
  EXPECT_THAT([&] { open_kv_store(kDatabase, context); },
              FailsWith(Code::kDataLoss, "manifest.ocdbt"));
}

}  // namespace
}  // namespace cairn
