// pytree_handler_test.cc -- what PyTreeCheckpointHandler does beside what is compared with the real
// one: handlers of the user's own, saves in the background, limits, priorities, merging, functions
// instead of transforms, damage.
#include <cairn/io/file.h>
#include <cairn/ocdbt/write/writer.h>
#include <cairn/open.h>
#include <cairn/orbax/byte_limiter.h>
#include <cairn/orbax/item_storage.h>
#include <cairn/orbax/pytree_checkpoint_handler.h>
#include <cairn/storage/kvstore.h>
#include <gmock/gmock.h>

#include <atomic>
#include <complex>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <future>
#include <mutex>

#include "tests/support/matchers.h"
#include "tests/support/same_bytes.h"
#include "tests/support/sanitizers.h"
#include "tests/support/temp_dir.h"

namespace cairn {
namespace {

using ::testing::ElementsAre;
using testing::error_of;
using ::testing::HasSubstr;
using testing::same_array;

Array floats(Shape shape, float first = 0) {
  Array array = Array::allocate(DType::kFloat32, std::move(shape));
  auto* values = reinterpret_cast<float*>(array.mutable_view().data);
  for (std::size_t i = 0; i < array.bytes().size() / 4; ++i)
    values[i] = first + static_cast<float>(i);
  return array;
}

Sharding over(std::int64_t devices, PartitionSpec spec) {
  return NamedSharding{make_mesh({devices}, {"x"}), std::move(spec)};
}

// ---- leaves of a type of the user's own ----

struct Quantized {
  Array values;  // int8
  float scale = 1;
};

// Stores two arrays below the leaf's name.
class QuantizedHandler : public TypeHandler {
 public:
  [[nodiscard]] std::string typestr() const override { return "quantized"; }
  [[nodiscard]] std::vector<ValueMetadata> metadata(
      std::span<const ParamInfo> infos) const override {
    std::vector<ValueMetadata> out(infos.size());
    for (std::size_t i = 0; i < infos.size(); ++i) {
      out[i].typestr = typestr();
      out[i].name = infos[i].name;
    }
    return out;
  }
  Futures serialize(std::span<const Tree> values, std::span<const ParamInfo> infos,
                    std::span<const SaveArgs>) const override {
    for (std::size_t i = 0; i < values.size(); ++i) {
      const auto* leaf = values[i].custom<Quantized>();
      const auto kept = std::make_shared<const Quantized>(*leaf);
      StoreArray array;
      array.name = infos[i].name + "/values";
      array.dtype = array.source_dtype = DType::kInt8;
      array.shape = kept->values.shape();
      array.data = kept->values.bytes().data();
      array.owner = kept;
      infos[i].writer->add_array(array);
      array.name = infos[i].name + "/scale";
      array.dtype = array.source_dtype = DType::kFloat32;
      array.shape = {};
      array.data = reinterpret_cast<const std::byte*>(&kept->scale);
      infos[i].writer->add_array(array);
      infos[i].writer->add_string(infos[i].name + ".unit", "volt");
    }
    return {infos[0].writer->written()};
  }
  [[nodiscard]] std::vector<Tree> deserialize(std::span<const ParamInfo> infos,
                                              std::span<const AnyRestoreArgs>) const override {
    std::vector<Tree> out;
    for (const ParamInfo& info : infos) {
      const std::string values = info.name + "/values";
      const std::string scale = info.name + "/scale";
      const std::string_view names[] = {values, scale};
      const auto stored = info.reader->arrays(names);
      Quantized leaf{Array::allocate(DType::kInt8, stored[0].shape), 0};
      Array number = Array::allocate(DType::kFloat32, {});
      const ItemReader::Read reads[] = {
          {values, Box::whole(stored[0].shape), leaf.values.mutable_view()},
          {scale, Box::whole({}), number.mutable_view()}};
      info.reader->read(reads);
      std::memcpy(&leaf.scale, number.bytes().data(), 4);
      out.emplace_back(CustomLeaf::of(leaf));
    }
    return out;
  }
  void finalize(const std::string& directory) const override {
    testing::put_file(directory + "/quantized.txt", "seen");
  }
};

PyTreeCheckpointHandlerOptions with_quantized() {
  auto registry = std::make_shared<TypeHandlerRegistry>(standard_type_handlers());
  registry->add(typeid(Quantized), std::make_shared<QuantizedHandler>());
  PyTreeCheckpointHandlerOptions options;
  options.type_handler_registry = registry;
  return options;
}

Quantized quantized() {
  Quantized leaf{Array::allocate(DType::kInt8, {3, 5}), 0.25F};
  for (int i = 0; i < 15; ++i) leaf.values.mutable_view().data[i] = static_cast<std::byte>(i * 17);
  return leaf;
}

// covers: type_handlers.TypeHandler
// note: C++ handlers give arrays to an `ItemWriter` and ask an `ItemReader`, so that one plan
// covers all arrays.
TEST(PyTreeHandler, LeavesOfAUsersTypeAreStoredAndRestored) {
  const testing::TempDir dir;
  PyTreeCheckpointHandler handler(with_quantized());
  handler.save(dir.path(),
               {.item = Tree(Tree::Dict{{"w", Tree(quantized())}, {"b", Tree(floats({2}))}})});
  handler.finalize(dir.path());
  EXPECT_TRUE(file_exists(dir.path() + "/quantized.txt"));
  const Tree back = handler.restore(dir.path());
  const auto* leaf = back.find("w")->custom<Quantized>();
  ASSERT_NE(leaf, nullptr);
  EXPECT_EQ(leaf->scale, 0.25F);
  EXPECT_TRUE(same_array(leaf->values, quantized().values));
  EXPECT_EQ(handler.metadata(dir.path()).tree.find("w")->custom<ValueMetadata>()->typestr,
            "quantized");
  // Whoever does not know the type says so, and can restore the rest.
  PyTreeCheckpointHandler plain;
  EXPECT_THAT(
      error_of([&] { static_cast<void>(plain.restore(dir.path())); }).what(),
      HasSubstr(
          "w: cannot be restored: no type handler is registered for the typestr 'quantized'"));
  const Tree some = plain.restore(
      dir.path(),
      {.item = Tree(Tree::Dict{{"b", Tree(std::int64_t{0})}}), .partial_restore = true});
  EXPECT_TRUE(same_array(*some.find("b")->array(), floats({2})));
}

// covers: type_handlers.TypeHandler
// note: A handler that stores nothing is an error that names the leaf.
TEST(PyTreeHandler, AHandlerThatStoresNothingIsNoticed) {
  class Forgetful : public NumpyHandler {
    Futures serialize(std::span<const Tree>, std::span<const ParamInfo>,
                      std::span<const SaveArgs>) const override {
      return {};
    }
  };
  const testing::TempDir dir;
  auto registry = std::make_shared<TypeHandlerRegistry>(standard_type_handlers());
  registry->add(typeid(Array), std::make_shared<Forgetful>(), {nullptr, true});
  PyTreeCheckpointHandlerOptions options;
  options.type_handler_registry = registry;
  PyTreeCheckpointHandler handler(options);
  EXPECT_THAT(error_of([&] {
                handler.save(dir.path(), {.item = Tree(Tree::Dict{{"a", Tree(floats({2}))}})});
              }).what(),
              HasSubstr("a: its type handler stored no value"));
}

// ---- saves in the background ----

// covers: type_handlers.NumpyHandler
// note: `deepcopy_host_arrays=True` copies only if the save continues in the background.
TEST(PyTreeHandler, TheCallerMayChangeHostArraysOnceTheSaveHasBegun) {
  const testing::TempDir dir;
  Buffer memory(4 * 1000);
  std::memset(memory.data(), 1, memory.size());
  const Array array(DType::kInt32, 4, {1000}, nullptr, memory.data());
  PyTreeCheckpointHandler handler;
  const auto futures =
      handler.async_save(dir.path(), {.item = Tree(Tree::Dict{{"a", Tree(array)}})});
  std::memset(memory.data(), 2, memory.size());
  for (const auto& future : futures) future.get();
  handler.finalize(dir.path());
  EXPECT_EQ(handler.restore(dir.path()).find("a")->array()->bytes()[0], std::byte{1});
}

TEST(PyTreeHandler, AFailureInTheBackgroundComesWithTheFuture) {
  const testing::TempDir dir;
  const std::string file = dir.path() + "/file";
  testing::put_file(file, "");
  PyTreeCheckpointHandler handler;
  const auto futures =
      handler.async_save(file + "/below", {.item = Tree(Tree::Dict{{"a", Tree(floats({2}))}})});
  EXPECT_EQ(error_of([&] { futures[0].get(); }).code(), Code::kIo);
}

// covers: pytree.PyTreeCheckpointHandler.close
// note: A save after `close` is `failed_precondition`. Orbax saves.
TEST(PyTreeHandler, ClosedHandlersSaveNothing) {
  const testing::TempDir dir;
  PyTreeCheckpointHandler handler;
  static_cast<void>(
      handler.async_save(dir.path() + "/a", {.item = Tree(Tree::Dict{{"a", Tree(floats({2}))}})}));
  handler.close();
  EXPECT_TRUE(file_exists(dir.path() + "/a/_METADATA"));  // closing waits
  EXPECT_EQ(error_of([&] { handler.save(dir.path() + "/b", {.item = Tree(floats({2}))}); }).code(),
            Code::kFailedPrecondition);
}

// ---- priorities and limits ----

// An array on one device that tells when it is copied.
Tree on_device(const std::string& name, std::vector<std::string>& copied, std::mutex& mutex) {
  ShardedArray array;
  array.shape = {64};
  array.dtype = DType::kFloat32;
  array.sharding = SingleDeviceSharding{"cpu:0"};
  ArrayShard shard;
  shard.box = Box::whole({64});
  shard.source = ShardCopy([&copied, &mutex, name](const Box&, const MutableArrayView& out) {
    const std::lock_guard lock(mutex);
    copied.push_back(name);
    std::memset(out.data, 0, 4 * static_cast<std::size_t>(element_count(out.shape)));
  });
  array.shards.push_back(std::move(shard));
  return Tree(std::move(array));
}

TEST(PyTreeHandler, PrioritizedKeysAreCopiedBeforeTheSaveReturns) {
  const testing::TempDir dir;
  std::vector<std::string> copied;
  std::mutex mutex;
  PyTreeCheckpointHandlerOptions options;
  options.is_prioritized_key_fn = [](const KeyPath& path) { return path[0].text == "z"; };
  PyTreeCheckpointHandler handler(options);
  const Tree tree(Tree::Dict{{"a", on_device("a", copied, mutex)},
                             {"b", on_device("b", copied, mutex)},
                             {"z", on_device("z", copied, mutex)}});
  const auto futures = handler.async_save(dir.path(), {.item = tree});
  {
    const std::lock_guard lock(mutex);
    ASSERT_FALSE(copied.empty());
    EXPECT_EQ(copied[0], "z");
  }
  futures[0].get();
  EXPECT_THAT(copied, ElementsAre("z", "a", "b"));
}

TEST(PyTreeHandler, DeprioritizedArraysAreCopiedLast) {
  const testing::TempDir dir;
  std::vector<std::string> copied;
  std::mutex mutex;
  auto registry = std::make_shared<TypeHandlerRegistry>(standard_type_handlers());
  ArrayHandler::Options array;
  array.key_priority = [](const KeyPath& path) {
    return path[0].text == "a" ? TransferPriority::kAsynchronousDeprioritized
                               : TransferPriority::kAsynchronousPrioritized;
  };
  registry->add(typeid(ShardedArray), std::make_shared<ArrayHandler>(array), {nullptr, true});
  PyTreeCheckpointHandlerOptions options;
  options.type_handler_registry = registry;
  PyTreeCheckpointHandler handler(options);
  const Tree tree(Tree::Dict{{"a", on_device("a", copied, mutex)},
                             {"b", on_device("b", copied, mutex)},
                             {"c", on_device("c", copied, mutex)}});
  handler.async_save(dir.path(), {.item = tree})[0].get();
  EXPECT_THAT(copied, ElementsAre("b", "c", "a"));
}

TEST(PyTreeHandler, TheDeviceLimitRegulatesItself) {
  const testing::TempDir dir;
  int readings = 0;
  PyTreeCheckpointHandlerOptions options;
  options.save_device_host_concurrent_gb = AutoLimit{};
  options.memory_limit_options.max_transfer_concurrent_gb = 100;
  options.memory_limit_options.read_memory = [&] {
    ++readings;
    return MemoryReading{128, 40};
  };
  PyTreeCheckpointHandler handler(options);
  handler.save(dir.path() + "/a", {.item = Tree(floats({2}))});
  handler.save(dir.path() + "/b", {.item = Tree(floats({2}))});
  EXPECT_EQ(readings, 2);
}

// The most memory that this process has had resident since the last call with reset.
std::int64_t peak_memory(bool reset) {
  if (reset) std::ofstream("/proc/self/clear_refs") << "5";
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("VmHWM:")) return std::stoll(line.substr(6)) * 1024;
  ADD_FAILURE() << "no VmHWM in /proc/self/status";
  return 0;
}

// A tree of arrays of 4 MiB on a device, whose copies are made when they are needed.
Tree many_on_device(int count) {
  Tree::Dict arrays;
  for (int i = 0; i < count; ++i) {
    ShardedArray array;
    array.shape = {1 << 20};
    array.dtype = DType::kFloat32;
    array.sharding = SingleDeviceSharding{"cpu:0"};
    ArrayShard shard;
    shard.box = Box::whole(array.shape);
    shard.source = ShardCopy([](const Box&, const MutableArrayView& out) {
      std::memset(out.data, 1, 4 * static_cast<std::size_t>(element_count(out.shape)));
    });
    array.shards.push_back(std::move(shard));
    arrays.emplace_back("w" + std::to_string(i), Tree(std::move(array)));
  }
  return Tree(std::move(arrays));
}

// covers: type_handlers.ParamInfo
// note: There is no `device_host_byte_limiter`: the writer of the item copies the arrays and
// keeps the limit.
// covers: pytree.PyTreeCheckpointHandler
// note: `save_device_host_concurrent_gb` limits all saves of a handler together. A larger array
// goes in parts.
TEST(PyTreeHandler, TheMemoryOfCopiesFromDevicesKeepsItsLimit) {
  if (testing::kSanitized) return;  // their shadow memory is counted, too
  constexpr std::int64_t kMiB = 1 << 20;
  const Tree tree = many_on_device(48);
  const auto grown_by = [&](std::optional<std::int64_t> limit, std::uint64_t memory) {
    const testing::TempDir dir;
    PyTreeCheckpointHandlerOptions options;
    options.save_device_host_concurrent_bytes = limit;
    options.resources.memory = memory;
    options.is_prioritized_key_fn = [](const KeyPath&) { return false; };
    PyTreeCheckpointHandler handler(options);
    const std::int64_t before = peak_memory(true);
    handler.async_save(dir.path(), {.item = tree})[0].get();
    return peak_memory(false) - before;
  };
  constexpr std::uint64_t kGiB = std::uint64_t{1} << 30U;
  // a batch of copies, what is encoded of it, and the allocator's share
  EXPECT_LT(grown_by(16 * kMiB, kGiB), 64 * kMiB);
  // without a limit all of it waits together
  EXPECT_GT(grown_by(std::nullopt, kGiB), 180 * kMiB);
  // The limit counts beside the working memory: a larger one makes larger batches.
  EXPECT_LT(grown_by(std::nullopt, 32 * kMiB), 90 * kMiB);
  EXPECT_GT(grown_by(512 * kMiB, 32 * kMiB), 180 * kMiB);
}

// save_concurrent_bytes bounds the working memory of a save, and with it the copies from devices.
TEST(PyTreeHandler, TheMemoryOfASaveKeepsItsLimit) {
  if (testing::kSanitized) return;  // their shadow memory is counted, too
  constexpr std::int64_t kMiB = 1 << 20;
  const Tree tree = many_on_device(48);
  const auto grown_by = [&](std::optional<std::int64_t> limit) {
    const testing::TempDir dir;
    PyTreeCheckpointHandlerOptions options;
    options.save_concurrent_bytes = limit;
    options.is_prioritized_key_fn = [](const KeyPath&) { return false; };
    PyTreeCheckpointHandler handler(options);
    const std::int64_t before = peak_memory(true);
    handler.save(dir.path(), {.item = tree});
    return peak_memory(false) - before;
  };
  // copies, what is encoded of them, and the allocator's share
  EXPECT_LT(grown_by(32 * kMiB), 90 * kMiB);
  // without a limit all of it waits together
  EXPECT_GT(grown_by(std::nullopt), 180 * kMiB);
}

TEST(PyTreeHandler, SavesShareTheLimitOfCopiesFromDevices) {
  if (testing::kSanitized) return;
  constexpr std::int64_t kMiB = 1 << 20;
  const testing::TempDir dir;
  PyTreeCheckpointHandlerOptions options;
  options.save_device_host_concurrent_bytes = 40 * kMiB;
  options.is_prioritized_key_fn = [](const KeyPath&) { return false; };
  PyTreeCheckpointHandler handler(options);
  const Tree tree = many_on_device(24);
  const std::int64_t before = peak_memory(true);
  std::vector<std::shared_future<void>> saves;
  for (int i = 0; i < 4; ++i)
    saves.push_back(handler.async_save(dir.path() + "/" + std::to_string(i), {.item = tree})[0]);
  for (const auto& save : saves) save.get();
  EXPECT_LT(peak_memory(false) - before, 110 * kMiB);  // four times 40 MiB if each had its own
}

TEST(PyTreeHandler, AChunkLargerThanTheLimitOfCopiesIsRefusedByName) {
  const testing::TempDir dir;
  PyTreeCheckpointHandlerOptions options;
  options.use_zarr3 = true;
  options.save_device_host_concurrent_bytes = 1 << 20;
  PyTreeCheckpointHandler handler(options);
  const Tree args(Tree::Dict{{"w0", Tree(SaveArgs{.write_chunk_shape = Shape{1 << 20}})}});
  const Error e =
      error_of([&] { handler.save(dir.path(), {.item = many_on_device(1), .save_args = args}); });
  EXPECT_EQ(e.code(), Code::kInvalidArgument);
  EXPECT_THAT(e.what(), HasSubstr("w0: one chunk of it has 4194304 bytes"));
  // Without a chunk shape of its own the array is cut into smaller chunks.
  handler.save(dir.path(), {.item = many_on_device(1)});
}

TEST(PyTreeHandler, TheDefaultLimitIs96Gigabytes) {
  const testing::TempDir dir;
  ShardedArray array;
  array.shape = {96'000'000'000};
  array.dtype = DType::kInt8;
  array.sharding = SingleDeviceSharding{"cpu:0"};
  array.shards.push_back({0, Box::whole(array.shape), 0,
                          ShardCopy([](const Box&, const MutableArrayView&) { FAIL(); })});
  EXPECT_THAT(error_of([&] {
                PyTreeCheckpointHandler().save(dir / "a", {.item = {{"w", array}}});
              }).what(),
              HasSubstr("less than the limit of 96000000000"));
}

// ---- copies of host arrays ----

// A leaf that is fetched when it is written.
struct Late {
  std::function<void()> wait;
};
class LateHandler : public TypeHandler {
 public:
  [[nodiscard]] std::string typestr() const override { return "late"; }
  [[nodiscard]] std::vector<ValueMetadata> metadata(std::span<const ParamInfo>) const override {
    return {};
  }
  Futures serialize(std::span<const Tree> values, std::span<const ParamInfo> infos,
                    std::span<const SaveArgs>) const override {
    StoreArray array;
    array.name = infos[0].name;
    array.dtype = array.source_dtype = DType::kInt8;
    array.shape = {1};
    array.copy = [wait = values[0].custom<Late>()->wait](const Box&, const MutableArrayView&) {
      wait();
    };
    infos[0].writer->add_array(array);
    return {infos[0].writer->written()};
  }
  [[nodiscard]] std::vector<Tree> deserialize(std::span<const ParamInfo>,
                                              std::span<const AnyRestoreArgs>) const override {
    return {};
  }
};

// The writing of the host array waits until the caller has changed it. The array is too large to be
// written before those that have to be fetched.
TEST(PyTreeHandler, HostArraysAreCopiedBeforeABackgroundSaveReturnsUnlessAskedNotTo) {
  for (const bool deepcopy : {true, false}) {
    const testing::TempDir dir;
    auto registry = std::make_shared<TypeHandlerRegistry>(standard_type_handlers());
    registry->add(typeid(Late), std::make_shared<LateHandler>());
    registry->add(typeid(Array),
                  std::make_shared<NumpyHandler>(
                      NumpyHandler::Options{.metadata_key = {}, .deepcopy_host_arrays = deepcopy}),
                  {nullptr, true});
    PyTreeCheckpointHandlerOptions options;
    options.type_handler_registry = registry;
    PyTreeCheckpointHandler handler(options);
    constexpr std::int64_t kSize = 100000;
    auto memory = std::make_shared<std::vector<float>>(kSize, 2.0F);
    const Array array(DType::kFloat32, 4, {kSize}, memory,
                      reinterpret_cast<const std::byte*>(memory->data()));
    std::promise<void> changed;
    const Late late{[ready = changed.get_future().share()] { ready.wait(); }};
    const auto futures = handler.async_save(dir.path(), {.item = {{"late", late}, {"w", array}}});
    (*memory)[1] = 7;
    changed.set_value();
    for (const auto& future : futures) future.get();
    std::vector<float> expected(kSize, 2.0F);
    if (!deepcopy) expected[1] = 7;
    EXPECT_TRUE(std::ranges::equal(open(dir.path())->read<float>("w"), expected));
  }
}

TEST(PyTreeHandler, ALimitHasOneUnit) {
  PyTreeCheckpointHandlerOptions options;
  options.save_device_host_concurrent_bytes = 1000;
  options.save_device_host_concurrent_gb = std::int64_t{1};
  EXPECT_THAT(error_of([&] { PyTreeCheckpointHandler{options}; }).what(),
              HasSubstr("save_device_host_concurrent_gb and save_device_host_concurrent_bytes"));
  options.save_device_host_concurrent_gb = AutoLimit{};
  options.memory_limit_options.max_transfer_concurrent_gb = 100;
  EXPECT_THAT(error_of([&] { PyTreeCheckpointHandler{options}; }).what(),
              HasSubstr("set the same limit"));
}

TEST(PyTreeHandler, ATreeOfEmptyNodesOnlyIsFine) {
  const testing::TempDir dir;
  PyTreeCheckpointHandler handler;
  handler.save(dir.path(), {.item = Tree(Tree::Dict{{"a", Tree(Tree::List{})}, {"b", Tree()}})});
  const Tree back = handler.restore(dir.path());
  EXPECT_EQ(std::get<EmptyNode>(back.find("a")->value()), EmptyNode::kList);
  EXPECT_EQ(std::get<EmptyNode>(back.find("b")->value()), EmptyNode::kNone);
}

// ---- merging ----

TEST(PyTreeHandler, FinalizingMergesTheDatabasesOfProcesses) {
  const testing::TempDir dir;
  PyTreeCheckpointHandler handler;
  handler.save(dir.path() + "/whole",
               {.item = Tree(Tree::Dict{{"a", Tree(floats({600}))}, {"b", Tree(floats({2}, 7))}})});
  // As a process of its own would have left it: its database in a folder of its name.
  const std::string whole = dir.path() + "/whole";
  std::filesystem::create_directory(whole + "/ocdbt.process_0");
  std::filesystem::rename(whole + "/manifest.ocdbt", whole + "/ocdbt.process_0/manifest.ocdbt");
  std::filesystem::rename(whole + "/d", whole + "/ocdbt.process_0/d");
  EXPECT_THROW(static_cast<void>(handler.restore(whole)), Error);
  handler.finalize(whole);
  EXPECT_TRUE(same_array(*handler.restore(whole).find("a")->array(), floats({600})));
}

TEST(PyTreeHandler, ProcessesThatDisagreeAreNamed) {
  const testing::TempDir dir;
  PyTreeCheckpointHandler handler;
  const Array array = floats({8});
  handler.save(
      dir.path(),
      {.item = Tree(Tree::Dict{{"a", Tree(ShardedArray::from_array(array, over(4, {{"x"}})))}})});
  const std::string folder = dir.path() + "/array_metadatas/";
  std::string text(as_text(read_file(folder + "process_0")));
  handler.finalize(dir.path());
  const auto write = [&](const std::string& changed) {
    testing::put_file(folder + "process_1", changed);
  };
  write(text);
  handler.finalize(dir.path());  // they agree
  const auto replace = [](std::string in, const std::string& from, const std::string& to) {
    return in.replace(in.find(from), from.size(), to);
  };
  const struct {
    std::string text;
    const char* what;
  } kBad[] = {
      {replace(text, "\"a\"", "\"b\""), "b: was saved by one process but not by another"},
      {replace(text, "\"write_shape\": [2]", "\"write_shape\": [4]"), "in pieces of (2,) and (4,)"},
      {replace(text, "\"chunk_shape\": [2]", "\"chunk_shape\": [1]"), "in chunks of (2,) and (1,)"},
      {"{\"array_metadatas\": []}", "different numbers of arrays: 1 and 0"},
      {"{", "process_1"}};
  for (const auto& [bad, what] : kBad) {
    write(bad);
    const Error e = error_of([&] { handler.finalize(dir.path()); });
    EXPECT_EQ(e.code(), Code::kDataLoss) << what;
    EXPECT_THAT(e.what(), HasSubstr(what));
  }
  PyTreeCheckpointHandlerOptions options;
  int calls = 0;
  options.array_metadata_validator = [&](const auto& by_process) {
    EXPECT_EQ(by_process.size(), 2);
    EXPECT_EQ(by_process.at(0).size(), 1);
    EXPECT_TRUE(by_process.at(1).empty());
    ++calls;
  };
  write("{\"array_metadatas\": []}");
  PyTreeCheckpointHandler(options).finalize(dir.path());  // who compares decides
  EXPECT_EQ(calls, 1);
}

// A handler of the caller's that holds its bytes while it writes a file of its own.
class LimitedHandler : public QuantizedHandler {
 public:
  Futures serialize(std::span<const Tree> values, std::span<const ParamInfo> infos,
                    std::span<const SaveArgs> args) const override {
    for (const ParamInfo& info : infos) {
      const auto held = info.byte_limiter->reserve(bytes);
      limits.push_back(info.byte_limiter->limit());
    }
    return QuantizedHandler::serialize(values, infos, args);
  }
  std::int64_t bytes = 0;
  mutable std::vector<std::optional<std::int64_t>> limits;
};

// covers: type_handlers.ParamInfo
TEST(PyTreeHandler, HandlersOfTheCallersKeepTheLimitOfBytes) {
  const testing::TempDir dir;
  auto handler = std::make_shared<LimitedHandler>();
  auto registry = std::make_shared<TypeHandlerRegistry>(standard_type_handlers());
  registry->add(typeid(Quantized), handler);
  PyTreeCheckpointHandlerOptions options;
  options.type_handler_registry = registry;
  options.save_concurrent_bytes = 1000;
  const Tree leaf(CustomLeaf::of(Quantized{Array::from<std::int8_t>({1, 2}, {2}), 0.5F}));
  const PyTreeSaveArgs args{.item = Tree(Tree::Dict{{"q", leaf}})};
  handler->bytes = 999;
  PyTreeCheckpointHandler(options).save(dir / "a", args);
  EXPECT_THAT(handler->limits, ::testing::ElementsAre(1000));
  handler->bytes = 1000;  // as in Orbax, a request is less than the limit
  EXPECT_EQ(error_of([&] { PyTreeCheckpointHandler(options).save(dir / "b", args); }).code(),
            Code::kInvalidArgument);
}

TEST(PyTreeHandler, AMergeThatIsNotValidCommitsNothing) {
  const testing::TempDir dir;
  const auto write = [&](const std::string& key, std::string_view value) {
    ocdbt::Writer writer(open_file_store(dir / "ocdbt.process_0"), ocdbt::WriterOptions());
    writer.stream().write(key, as_bytes(value));
    writer.commit();
  };
  EXPECT_EQ(merge_ocdbt_per_process_files(dir.path()), 0);
  write("a/0", "chunk");
  EXPECT_THAT(error_of([&] { merge_ocdbt_per_process_files(dir.path()); }).what(),
              HasSubstr("values but no .zarray of 'a'"));
  EXPECT_FALSE(file_exists(dir / "manifest.ocdbt"));
  EXPECT_EQ(merge_ocdbt_per_process_files(dir.path(), {.use_zarr3 = true}), 1);
  EXPECT_TRUE(file_exists(dir / "manifest.ocdbt"));
}

// ---- restoring ----

TEST(PyTreeHandler, MissingCheckpointsAreNotFound) {
  const testing::TempDir dir;
  PyTreeCheckpointHandler handler;
  EXPECT_EQ(error_of([&] { static_cast<void>(handler.restore(dir.path() + "/none")); }).code(),
            Code::kNotFound);
  EXPECT_THAT(error_of([&] { static_cast<void>(handler.restore(dir.path())); }).what(),
              HasSubstr("no structure could be identified"));
  EXPECT_EQ(error_of([&] { static_cast<void>(handler.metadata(dir.path())); }).code(),
            Code::kNotFound);
  EXPECT_EQ(error_of([&] { handler.finalize(dir.path() + "/none"); }).code(), Code::kNotFound);
}

TEST(PyTreeHandler, AnArrayWhoseFolderIsGoneIsNamedWithAWayOut) {
  const testing::TempDir dir;
  PyTreeCheckpointHandlerOptions options;
  options.use_ocdbt = false;
  PyTreeCheckpointHandler handler(options);
  handler.save(dir.path(),
               {.item = Tree(Tree::Dict{{"a", Tree(floats({2}))}, {"b", Tree(floats({2}))}})});
  std::filesystem::remove_all(dir.path() + "/a");
  const Error e = error_of([&] { static_cast<void>(handler.restore(dir.path())); });
  EXPECT_EQ(e.code(), Code::kNotFound);
  EXPECT_THAT(e.what(), HasSubstr("a: no array of this name"));
  EXPECT_THAT(e.what(), HasSubstr("cp -a"));
  // What is there can be restored.
  const Tree some = handler.restore(
      dir.path(), {.item = Tree(Tree::Dict{{"b", Tree()}, {"a", Tree(Placeholder{})}})});
  EXPECT_TRUE(std::holds_alternative<Placeholder>(some.find("a")->value()));
}

TEST(PyTreeHandler, APlaceholderHasNoValueOfAnyType) {
  const testing::TempDir dir;
  PyTreeCheckpointHandler handler;
  handler.save(dir.path(),
               {.item = Tree(Tree::Dict{{"a", Tree(floats({2}))}, {"b", Tree(Placeholder{})}})});
  const auto with = [](std::optional<RestoreType> type) {
    return Tree(Tree::Dict{{"a", Tree()},
                           {"b", Tree(RestoreArgs{.restore_type = std::move(type), .dtype = {}})}});
  };
  const Tree target(Tree::Dict{{"a", Tree(floats({2}))}, {"b", Tree(std::int64_t{5})}});
  const auto restored = [&](const PyTreeRestoreArgs& args) {
    return *handler.restore(dir.path(), args).find("b");
  };
  EXPECT_TRUE(
      std::holds_alternative<Placeholder>(restored({.restore_args = with(std::nullopt)}).value()));
  EXPECT_TRUE(
      std::holds_alternative<Placeholder>(restored({.restore_args = with("placeholder")}).value()));
  EXPECT_TRUE(std::holds_alternative<Placeholder>(
      restored({.item = target, .restore_args = with(std::nullopt)}).value()));
  EXPECT_FALSE(std::holds_alternative<Placeholder>(
      restored({.item = target, .restore_args = with(std::nullopt), .partial_restore = true})
          .value()));
  // Asked for as something, it is missing, as in Orbax.
  for (const bool partial : {false, true}) {
    const Error e = error_of([&] {
      restored({.item = target, .restore_args = with("int"), .partial_restore = partial});
    });
    EXPECT_EQ(e.code(), Code::kNotFound);
    EXPECT_THAT(
        e.what(),
        HasSubstr("b: a placeholder was saved here, so there is no value to restore as int"));
  }
  EXPECT_EQ(error_of([&] { restored({.restore_args = with("np.ndarray")}); }).code(),
            Code::kNotFound);
}

// A sharded array of 8 float32 in two pieces of 16 bytes, and the arguments to restore it over four
// devices: 8 bytes each, out of chunks of 16.
const Array kEight = floats({8});
Tree in_two() {
  return Tree(Tree::Dict{{"a", Tree(ShardedArray::from_array(kEight, over(2, {{"x"}})))}});
}
PyTreeRestoreArgs over_four() {
  ArrayRestoreArgs args;
  args.sharding = over(4, {{"x"}});
  return {.restore_args = Tree(Tree::Dict{{"a", Tree(args)}})};
}

TEST(PyTreeHandler, PiecesMustBeSmallerThanTheLimits) {
  const testing::TempDir dir;
  PyTreeCheckpointHandlerOptions options;
  options.save_concurrent_bytes = 16;
  PyTreeCheckpointHandler tight(options);
  const Error saving = error_of([&] { tight.save(dir / "a", {.item = in_two()}); });
  EXPECT_EQ(saving.code(), Code::kInvalidArgument);
  EXPECT_THAT(
      saving.what(),
      HasSubstr("a: needs 16 bytes at once, which must be less than the limit of 16 bytes"));
  PyTreeCheckpointHandler().save(dir / "b", {.item = in_two()});
  options.restore_concurrent_bytes = 16;
  PyTreeCheckpointHandler handler(options);
  // What is reserved for a read are the chunks that it touches.
  const Error restoring =
      error_of([&] { static_cast<void>(handler.restore(dir / "b", over_four())); });
  EXPECT_EQ(restoring.code(), Code::kInvalidArgument);
  EXPECT_THAT(
      restoring.what(),
      HasSubstr("a: needs 16 bytes at once, which must be less than the limit of 16 bytes"));
  options.restore_concurrent_bytes = 17;
  const Tree back = PyTreeCheckpointHandler(options).restore(dir / "b", over_four());
  const auto* restored = back.find("a")->custom<ShardedArray>();
  ASSERT_NE(restored, nullptr);
  EXPECT_EQ(restored->shards.size(), 4U);
  EXPECT_TRUE(same_array(gather_shards(*restored), kEight));
}

TEST(PyTreeHandler, EntriesOfASpecBehindTheLastDimensionMustSplitNothing) {
  const testing::TempDir dir;
  PyTreeCheckpointHandler handler;
  handler.save(dir.path(), {.item = Tree(Tree::Dict{{"a", Tree(floats({8}))}})});
  const auto restored = [&](PartitionSpec spec) {
    ArrayRestoreArgs args;
    args.mesh = make_mesh({2, 1}, {"x", "one"});
    args.mesh_axes = std::move(spec);
    return handler.restore(dir.path(), {.restore_args = Tree(Tree::Dict{{"a", Tree(args)}})});
  };
  EXPECT_EQ(restored({{"x"}, {}, {"one"}}).find("a")->custom<ShardedArray>()->shards.size(), 2U);
  for (const PartitionSpec& spec :
       {PartitionSpec{{}, {"x"}}, PartitionSpec{{"x"}, {"one", "other"}}})
    EXPECT_EQ(error_of([&] { restored(spec); }).code(), Code::kInvalidArgument);
}

TEST(PyTreeHandler, TheMemoryOfARestoreKeepsItsLimit) {
  if (testing::kSanitized) return;  // their shadow memory is counted, too
  constexpr std::int64_t kMiB = 1 << 20;
  const testing::TempDir dir;
  PyTreeCheckpointHandlerOptions options;
  PyTreeCheckpointHandler(options).save(
      // 192 MiB in chunks of 4 MiB, one a row
      dir.path(), {.item = Tree(Tree::Dict{{"a", Tree(floats({48, 1024, 1024}))}}),
                   .save_args = Tree(Tree::Dict{{"a", Tree(SaveArgs{.shard_axes = {0}})}})});
  // Converted, so that what is read is no result: 48 MiB of int8 is.
  const PyTreeRestoreArgs args{
      .restore_args = Tree(Tree::Dict{{"a", Tree(RestoreArgs{.dtype = DType::kInt8})}})};
  const auto grown_by = [&](std::optional<std::int64_t> limit) {
    options.restore_concurrent_bytes = limit;
    const PyTreeCheckpointHandler handler(options);
    const std::int64_t before = peak_memory(true);
    static_cast<void>(handler.restore(dir.path(), args));
    return peak_memory(false) - before;
  };
  // the result, what is held and what is decoded, and the allocator's share
  EXPECT_LT(grown_by(16 * kMiB), (48 + 2 * 16 + 16) * kMiB);
  // without a limit, at least 48 MiB are held at once
  EXPECT_GT(grown_by(std::nullopt), (48 + 44) * kMiB);
}

// covers: pytree.PyTreeCheckpointHandler.restore
// note: Damage of a value with a checksum is an error.
TEST(PyTreeHandler, DamageIsNeverRestored) {
  const testing::TempDir dir;
  PyTreeCheckpointHandler handler;
  handler.save(dir.path(), {.item = Tree(Tree::Dict{{"a", Tree(floats({5000}))}})});
  std::string data;
  for (const auto& entry : std::filesystem::directory_iterator(dir.path() + "/d"))
    if (data.empty() || entry.file_size() > std::filesystem::file_size(data))
      data = entry.path().string();
  Bytes bytes = read_file(data);
  bytes[bytes.size() / 2] ^= std::byte{4};
  testing::put_file(data, ByteView(bytes));
  const Error e = error_of([&] { static_cast<void>(handler.restore(dir.path())); });
  EXPECT_EQ(e.code(), Code::kDataLoss);
  EXPECT_THAT(e.what(), HasSubstr("a: "));
}

// Bytes that this process has asked the system for so far.
std::int64_t bytes_read() {
  std::ifstream io("/proc/self/io");
  std::string name;
  std::int64_t value = 0;
  while (io >> name >> value)
    if (name == "rchar:") return value;
  ADD_FAILURE() << "no rchar in /proc/self/io";
  return 0;
}

TEST(PyTreeHandler, RestoringPartOfACheckpointReadsThatPart) {
  const testing::TempDir dir;
  Tree::Dict layers;
  for (int i = 0; i < 32; ++i)
    // 2 MiB each
    layers.emplace_back("w" + std::to_string(i), Tree(floats({512, 1024}, static_cast<float>(i))));
  PyTreeCheckpointHandlerOptions options;
  options.use_compression = false;
  PyTreeCheckpointHandler handler(options);
  handler.save(
      dir.path(),
      {.item = Tree(Tree::Dict{{"layers", Tree(layers)}, {"small", Tree(floats({300}))}})});
  const auto read_by = [](const std::function<void()>& f) {
    const std::int64_t before = bytes_read();
    f();
    return bytes_read() - before;
  };
  constexpr std::int64_t kMiB = 1 << 20;
  const Tree leaf(std::int64_t{0});
  const auto partial = [&](Tree target) {
    return handler.restore(dir.path(), {.item = std::move(target), .partial_restore = true});
  };
  EXPECT_LT(read_by([&] {
              static_cast<void>(partial(Tree(Tree::Dict{{"small", leaf}})));
            }),
            kMiB / 4);
  EXPECT_LT(read_by([&] {
              static_cast<void>(partial(
                  Tree(Tree::Dict{{"layers", Tree(Tree::Dict{{"w3", leaf}, {"w9", leaf}})}})));
            }),
            4 * kMiB + kMiB / 4);
  const Tree target(Tree::Dict{{"mine", leaf}});
  PyTreeRestoreArgs restore{.item = target, .restore_args = Tree(Tree::Dict{{"mine", Tree()}})};
  restore.transforms = {{"mine", {.transform = {.original_key = "layers/w7"}}}};
  Tree back;
  EXPECT_LT(read_by([&] { back = handler.restore(dir.path(), restore); }), 2 * kMiB + kMiB / 4);
  EXPECT_TRUE(same_array(*back.find("mine")->array(), floats({512, 1024}, 7)));
  // all of it: the counter counts
  EXPECT_GT(read_by([&] { static_cast<void>(handler.restore(dir.path())); }), 60 * kMiB);
}

// ---- older checkpoints ----

// covers: pytree.PyTreeCheckpointHandler
TEST(PyTreeHandler, ValuesInTheAggregateFileAreRestoredUnderItsName) {
  const testing::TempDir dir;
  // {"a": ext 1 int16 (2,) [1, 2], "b": 7, "c": "PLACEHOLDER://c"}: values, and one that is stored
  // as an array of its own.
  const char text[] =
      "\x83\xa1"
      "a\xc7\x0f\x01\x93\x91\x02\xa5int16\xc4\x04\x01\x00\x02\x00\xa1"
      "b\x07\xa1"
      "c\xafPLACEHOLDER://c";
  const std::string_view msgpack(text, sizeof text - 1);
  PyTreeCheckpointHandlerOptions options;
  options.use_ocdbt = false;
  options.aggregate_filename = "aggregate.msgpack";
  PyTreeCheckpointHandler handler(options);
  handler.save(dir.path(), {.item = Tree(Tree::Dict{{"c", Tree(floats({3}))}})});
  std::filesystem::remove(dir / "_METADATA");
  testing::put_file(dir / "aggregate.msgpack", msgpack);
  const Tree back = handler.restore(dir.path());
  EXPECT_EQ(back.find("a")->array()->shape(), Shape{2});
  EXPECT_EQ(std::get<std::int64_t>(back.find("b")->value()), 7);
  EXPECT_TRUE(same_array(*back.find("c")->array(), floats({3})));
  // Casts, and a target of which more is stored.
  const Tree target(Tree::Dict{{"a", Tree(std::int64_t{0})}, {"b", Tree(std::int64_t{0})}});
  const Tree args(
      Tree::Dict{{"a", Tree(RestoreArgs{.restore_type = std::nullopt, .dtype = DType::kFloat32})},
                 {"b", Tree(RestoreArgs{.restore_type = std::nullopt, .dtype = DType::kFloat64})}});
  const Tree cast = handler.restore(dir.path(), {.item = target, .restore_args = args});
  EXPECT_TRUE(same_array(*cast.find("a")->array(), floats({2}, 1)));
  EXPECT_EQ(std::get<double>(cast.find("b")->value()), 7.0);
  EXPECT_EQ(error_of([&] {
              static_cast<void>(handler.restore(
                  dir.path(), {.item = Tree(Tree::Dict{{"d", Tree(std::int64_t{0})}})}));
            }).code(),
            Code::kNotFound);
  // By its usual name it is not there.
  EXPECT_EQ(
      error_of([&] { static_cast<void>(PyTreeCheckpointHandler().restore(dir.path())); }).code(),
      Code::kNotFound);
}

// ---- transforms ----

TEST(PyTreeHandler, TransformsReadWhatTheyNeedAndMakeTheTarget) {
  const testing::TempDir dir;
  PyTreeCheckpointHandler handler;
  handler.save(dir.path(),
               {.item = Tree(Tree::Dict{{"a", Tree(std::int64_t{1})},
                                        {"b", Tree(Tree::Dict{{"c", Tree(std::int64_t{2})}})}})});
  const auto number = [](std::int64_t n) { return Tree(n); };
  const Tree target(
      Tree::Dict{{"x", number(0)}, {"zq", number(0)}, {"a", number(9)}, {"k", number(4)}});
  const Tree args =
      map_leaves(target, [](const KeyPath&, const Tree&) { return Tree(RestoreArgs{}); });
  PyTreeRestoreArgs restore{.item = target, .restore_args = args};
  restore.transforms = {{"x", {.transform = {.original_key = "b/c"}}},
                        {"(.*)q", {.transform = {.original_key = "a"}}}};
  const Tree back = handler.restore(dir.path(), restore);
  const auto at = [&](const char* key) { return std::get<std::int64_t>(back.find(key)->value()); };
  EXPECT_EQ(at("x"), 2);
  EXPECT_EQ(at("zq"), 1);
  EXPECT_EQ(at("a"), 1);
  EXPECT_EQ(at("k"), 4);
  restore.restore_args.reset();
  EXPECT_THAT(error_of([&] { static_cast<void>(handler.restore(dir.path(), restore)); }).what(),
              HasSubstr("need restore_args"));
  restore.item.reset();
  EXPECT_THAT(error_of([&] { static_cast<void>(handler.restore(dir.path(), restore)); }).what(),
              HasSubstr("need an item"));
  restore.legacy_transform_fn = [](const Tree&, const StoredStructure& stored) { return stored; };
  EXPECT_THAT(error_of([&] { static_cast<void>(handler.restore(dir.path(), restore)); }).what(),
              HasSubstr("exclude each other"));
}

// covers: pytree.RestoreTransform
TEST(PyTreeHandler, AFunctionOfManyValuesGetsTheArgumentsOfItsOutput) {
  const testing::TempDir dir;
  PyTreeCheckpointHandler handler;
  const auto number = [](std::int64_t n) { return Tree(n); };
  handler.save(dir.path(), {.item = Tree(Tree::Dict{{"a", number(1)}, {"b", number(2)}})});
  const RestoreMultiValueFn describe = [](std::string_view key, const Tree& stored,
                                          const AnyRestoreArgs& args) {
    const bool is_array = array_restore_args(args) != nullptr;
    const auto dtype = is_array ? array_restore_args(args)->dtype : std::get<0>(args).dtype;
    return Tree(std::string(key) + (is_array ? " array " : " any ") +
                std::string(dtype ? dtype_name(*dtype) : "-") +
                (std::holds_alternative<Placeholder>(stored.find("b")->value()) ? " a" : " a b"));
  };
  RestoreTransform transform;
  transform.transform.multi_value_fn_input_args = {"a"};
  transform.multi_value_fn = describe;
  PyTreeRestoreArgs restore;
  restore.item = Tree(Tree::Dict{{"x", Tree(Tree::Dict{{"y", number(0)}})}, {"z", number(0)}});
  restore.restore_args =
      Tree(Tree::Dict{{"x", Tree(Tree::Dict{{"y", Tree(RestoreArgs{.dtype = DType::kInt8})}})},
                      {"z", Tree(ArrayRestoreArgs{.dtype = DType::kFloat64})}});
  // As a nested tree, in which a plain transform may stand, too.
  restore.transforms = flatten_restore_transforms(
      Tree(Tree::Dict{{"x", Tree(Tree::Dict{{"y", Tree(CustomLeaf::of(transform))}})},
                      {"z", Tree(CustomLeaf::of(Transform{.use_fallback = true}))}}));
  Tree back = handler.restore(dir.path(), restore);
  EXPECT_EQ(std::get<std::string>(back.find("x")->find("y")->value()), "x/y any int8 a");
  EXPECT_EQ(std::get<std::int64_t>(back.find("z")->value()), 0);

  restore.transforms = {{".*", transform}};
  back = handler.restore(dir.path(), restore);
  EXPECT_EQ(std::get<std::string>(back.find("z")->value()), "z array float64 a");

  transform.transform.multi_value_fn = [](std::string_view, const Tree& stored) { return stored; };
  restore.transforms = {{"z", transform}};
  EXPECT_THAT(error_of([&] { static_cast<void>(handler.restore(dir.path(), restore)); }).what(),
              HasSubstr("transform 'z': RestoreTransform::multi_value_fn and "
                        "transform.multi_value_fn exclude each other"));
  EXPECT_THAT(error_of([&] {
                static_cast<void>(flatten_restore_transforms(Tree(Tree::Dict{{"q", number(1)}})));
              }).what(),
              HasSubstr("the value at 'q' in the transforms is not a transform"));
}

TEST(PyTreeHandler, AFunctionMayRearrangeWhatIsRestored) {
  const testing::TempDir dir;
  PyTreeCheckpointHandler handler;
  handler.save(dir.path(),
               {.item = Tree(Tree::Dict{
                    {"a", Tree(floats({2}))}, {"b", Tree(std::string("text"))}, {"e", Tree()}})});
  PyTreeRestoreArgs restore;
  restore.legacy_transform_fn = [](const Tree&, const StoredStructure& stored) {
    EXPECT_EQ(stored.structure.find("b")->custom<LeafType>()->value_type, "string");
    return StoredStructure{Tree(Tree::Dict{{"moved", *stored.structure.find("a")},
                                           {"e", *stored.structure.find("e")}}),
                           Tree(Tree::Dict{{"moved", *stored.param_infos.find("a")},
                                           {"e", *stored.param_infos.find("e")}})};
  };
  const Tree back = handler.restore(dir.path(), restore);
  EXPECT_TRUE(same_array(*back.find("moved")->array(), floats({2})));
  EXPECT_EQ(std::get<EmptyNode>(back.find("e")->value()), EmptyNode::kNone);
  EXPECT_EQ(back.find("b"), nullptr);
}

// ---- rich types ----

TEST(PyTreeHandler, RichTypesSurvive) {
  const testing::TempDir dir;
  PyTreeCheckpointHandlerOptions options;
  options.pytree_metadata_options.support_rich_types = true;
  PyTreeCheckpointHandler handler(options);
  const Tree tree(Tree::Dict{
      {"t", Tree(Tree::Tuple{{Tree(floats({2})), Tree(Tree::List{Tree(std::int64_t{1})})}})},
      {"n",
       Tree(Tree::NamedTuple{"optax", "State", {{"nu", Tree(2.5)}, {"mu", Tree(Tree::Tuple{})}}})},
      {"e", Tree(Tree::NamedTuple{"optax", "Empty", {}})}});
  handler.save(dir.path(), {.item = tree});
  const Tree back = handler.restore(dir.path());
  ASSERT_NE(back.find("t")->tuple(), nullptr);
  EXPECT_TRUE(same_array(*back.find("t")->find("0")->array(), floats({2})));
  ASSERT_NE(back.find("n")->named_tuple(), nullptr);
  EXPECT_EQ(back.find("n")->named_tuple()->name, "State");
  EXPECT_EQ(back.find("n")->named_tuple()->fields[0].first, "nu");
  EXPECT_EQ(std::get<EmptyNode>(back.find("n")->find("mu")->value()), EmptyNode::kTuple);
  EXPECT_EQ(std::get<EmptyNode>(back.find("e")->value()), EmptyNode::kNamedTuple);
  // Without the option they are lists and dicts, and the empty one None.
  const Tree plain = PyTreeCheckpointHandler().restore(dir.path());
  EXPECT_NE(plain.find("t")->list(), nullptr);
  EXPECT_NE(plain.find("n")->dict(), nullptr);
  EXPECT_EQ(std::get<EmptyNode>(plain.find("e")->value()), EmptyNode::kNone);
}

}  // namespace
}  // namespace cairn
