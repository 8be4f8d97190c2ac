// save_doors_test.cc -- every door to the save path (save, Checkpointer, AsyncCheckpointer,
// convert) takes the same leaves and stores the same bytes.
#include <cairn/cairn.h>
#include <cairn/checkpoint_manager.h>
#include <cairn/io/file.h>
#include <cairn/orbax/checkpointer.h>
#include <cairn/orbax/handlers.h>
#include <cairn/orbax/item_storage.h>
#include <cairn/orbax/leaf_args.h>
#include <cairn/orbax/pytree_checkpoint_handler.h>
#include <cairn/orbax/sharding.h>
#include <cairn/storage/kvstore.h>
#include <gmock/gmock.h>

#include <cstring>
#include <functional>
#include <map>
#include <string>

#include "tests/support/matchers.h"
#include "tests/support/processes.h"
#include "tests/support/same_bytes.h"
#include "tests/support/temp_dir.h"

namespace cairn {
namespace {

using testing::FailsWith;
using ::testing::HasSubstr;
using testing::same_array;
using testing::TempDir;

Array numbers(DType dtype, Shape shape) {
  Array array = Array::allocate(dtype, std::move(shape));
  for (std::size_t i = 0; i < array.bytes().size(); ++i)
    array.mutable_view().data[i] = static_cast<std::byte>(i % 100);
  return array;
}

ShardedArray sharded(const Array& array) {
  return ShardedArray::from_array(array, NamedSharding{make_mesh({2, 2}, {"x", "y"}), {{"x"}}});
}
Tree sharded_leaf(const Array& array) { return Tree(CustomLeaf::of(sharded(array))); }

// A number of a type of its own, stored as an array.
struct Celsius {
  double degrees = 0;
};
class CelsiusHandler : public TypeHandler {
 public:
  [[nodiscard]] std::string typestr() const override { return "celsius"; }
  [[nodiscard]] std::vector<ValueMetadata> metadata(
      std::span<const ParamInfo> infos) const override {
    return std::vector<ValueMetadata>(infos.size());
  }
  Futures serialize(std::span<const Tree> values, std::span<const ParamInfo> infos,
                    std::span<const SaveArgs>) const override {
    for (std::size_t i = 0; i < values.size(); ++i) {
      const auto kept = std::make_shared<const Celsius>(*values[i].custom<Celsius>());
      StoreArray array;
      array.name = infos[i].name;
      array.dtype = array.source_dtype = DType::kFloat64;
      array.data = reinterpret_cast<const std::byte*>(&kept->degrees);
      array.owner = kept;
      infos[i].writer->add_array(std::move(array));
    }
    return {infos[0].writer->written()};
  }
  [[nodiscard]] std::vector<Tree> deserialize(std::span<const ParamInfo> infos,
                                              std::span<const AnyRestoreArgs>) const override {
    std::vector<Tree> out;
    for (const ParamInfo& info : infos) {
      Array stored = Array::allocate(DType::kFloat64, {});
      const ItemReader::Read read{info.name, {}, stored.mutable_view()};
      info.reader->read(std::span(&read, 1));
      Celsius value;
      std::memcpy(&value.degrees, stored.bytes().data(), sizeof value.degrees);
      out.emplace_back(CustomLeaf::of(value));
    }
    return out;
  }
};

Tree mixed_tree() {
  return Tree(Tree::Dict{
      {"bool", Tree(NumpyScalar{DType::kBool, {std::byte{1}}})},
      {"device", sharded_leaf(numbers(DType::kFloat32, {8, 6}))},
      {"empty", Tree(Array::allocate(DType::kInt16, {0, 3}))},
      {"empty device", sharded_leaf(Array::allocate(DType::kFloat32, {0, 4}))},
      {"host", Tree(numbers(DType::kBfloat16, {5}))},
      {"list", Tree(Tree::List{Tree(std::int64_t{7}), Tree(2.5), Tree(Tree::Tuple{}), Tree()})},
      {"text", Tree(std::string("t"))},
      {"tuple", Tree(Tree::Tuple{{Tree(true), Tree(Placeholder{})}})}});
}

void check_mixed(const Tree& back) {
  const auto* device = back.find("device")->custom<ShardedArray>();
  ASSERT_NE(device, nullptr);
  EXPECT_TRUE(same_array(gather_shards(*device), numbers(DType::kFloat32, {8, 6})));
  EXPECT_EQ(std::get<NamedSharding>(device->sharding).mesh.shape, (Shape{2, 2}));
  EXPECT_EQ(back.find("empty")->array()->shape(), (Shape{0, 3}));
  EXPECT_EQ(back.find("empty device")->custom<ShardedArray>()->shape, (Shape{0, 4}));
  EXPECT_TRUE(same_array(*back.find("host")->array(), numbers(DType::kBfloat16, {5})));
  EXPECT_EQ(std::get<std::string>(back.find("text")->value()), "t");
  EXPECT_TRUE(std::get<bool>(back.find("bool")->value()));
  EXPECT_TRUE(std::get<bool>(back.find("tuple")->list()->at(0).value()));
}

// The files of a checkpoint that do not tell when it was saved or name the databases' files.
std::map<std::string, std::string> files_of(const std::string& path) {
  std::map<std::string, std::string> out;
  for (const char* name : {"_METADATA", "_sharding", "_strings.json", "array_metadatas/process_0"})
    out[name] = as_text(read_file(path + "/" + name));
  const auto store = open_ocdbt(open_file_store(path));
  for (const ListEntry& entry : store->list(""))
    out[entry.key] = as_text(*store->read_at_most(entry.key, 1 << 20));
  return out;
}

TEST(SaveDoors, StoreTheSameBytes) {
  const TempDir dir;
  save(dir / "save", mixed_tree());
  Checkpointer().save(dir / "checkpointer", {.item = mixed_tree()});
  AsyncCheckpointer background;
  background.save(dir / "async", {.item = mixed_tree()});
  background.wait_until_finished();
  const auto saved = files_of(dir / "save");
  EXPECT_TRUE(saved.contains("empty device/.zarray"));
  EXPECT_FALSE(saved.contains("empty device/0.0"));
  EXPECT_EQ(files_of(dir / "checkpointer"), saved);
  EXPECT_EQ(files_of(dir / "async"), saved);
  for (const char* name : {"save", "checkpointer", "async"}) {
    check_mixed(Checkpointer().restore(dir / name));
    EXPECT_FALSE(open(dir / name)->verify({}).damaged());
  }
  ConvertOptions to_orbax;
  to_orbax.format = TargetFormat::kOrbax;
  convert(*open(dir / "save"), dir / "converted", to_orbax);
  check_mixed(Checkpointer().restore(dir / "converted"));
}

TEST(SaveDoors, SaveHonoursItsOptionsForEveryLeaf) {
  const TempDir dir;
  for (const bool ocdbt : {true, false}) {
    SaveOptions options;
    options.use_ocdbt = ocdbt;
    options.use_zarr3 = true;
    options.item = "state";
    options.v1 = true;
    options.chunk_bytes = 32;
    options.compression = Compression(Compression::kNone);
    options.durability = Durability::kUnsynced;
    options.resources.threads = 2;
    options.if_exists = IfExists::kReplace;
    options.custom_metadata = R"({"a": 1})";
    std::uint64_t done = 0;
    options.progress = [&](std::uint64_t now, std::uint64_t /*total*/) { done = now; };
    save(dir / "a", mixed_tree(), options);
    check_mixed(PyTreeCheckpointHandler().restore(dir / "a/state"));
    const auto opened = open(dir / "a");
    EXPECT_LE(element_count(opened->info("device").chunk_shape) * 4, 32);
    EXPECT_THAT(opened->info().custom_metadata, HasSubstr("\"a\""));
    EXPECT_TRUE(file_exists(dir / "a/orbax.checkpoint"));
    EXPECT_GT(done, 192U);
  }
}

TEST(SaveDoors, ACheckpointerCutsChunksAsSaveDoes) {
  const TempDir dir;
  save(dir / "save", mixed_tree(), {.chunk_bytes = 32});
  Checkpointer(PyTreeCheckpointHandlerOptions{.chunk_bytes = 32})
      .save(dir / "checkpointer", {.item = mixed_tree()});
  EXPECT_EQ(files_of(dir / "checkpointer"), files_of(dir / "save"));
  EXPECT_LE(element_count(open(dir / "checkpointer")->info("device").chunk_shape) * 4, 32);
  EXPECT_THAT([] { PyTreeCheckpointHandler(PyTreeCheckpointHandlerOptions{.chunk_bytes = 0}); },
              FailsWith(Code::kInvalidArgument, "chunk_bytes is 0; it must be positive"));
}

// covers: type_handlers.register_type_handler
TEST(SaveDoors, SaveTakesTheDefaultRegistrysTypes) {
  const TempDir dir;
  auto& registry = default_type_handler_registry();
  if (!registry.has(typeid(Celsius)))
    registry.add(typeid(Celsius), std::make_shared<CelsiusHandler>());
  save(dir / "a", Tree(Tree::Dict{{"t", Tree(CustomLeaf::of(Celsius{21.5}))}}));
  EXPECT_EQ(Checkpointer().restore(dir / "a").find("t")->custom<Celsius>()->degrees, 21.5);
}

// Every door reports the same bytes, of all items together, and ends with the total.
TEST(SaveDoors, ReportTheProgress) {
  const TempDir dir;
  struct Seen {
    std::uint64_t done = 0, total = 0, calls = 0;
    ProgressFn fn() {
      return [this](std::uint64_t now, std::uint64_t of) {
        EXPECT_LE(done, now);
        EXPECT_LE(now, of);
        done = now;
        total = of;
        ++calls;
      };
    }
  };
  const auto seen_by = [](const std::function<void(const ProgressFn&)>& save) {
    Seen seen;
    save(seen.fn());
    EXPECT_GE(seen.calls, 1U);
    EXPECT_EQ(seen.done, seen.total);
    return seen.total;
  };
  const std::uint64_t bytes =
      seen_by([&](const ProgressFn& fn) { save(dir / "save", mixed_tree(), {.progress = fn}); });
  EXPECT_GT(bytes, 192U);
  EXPECT_EQ(bytes, seen_by([&](const ProgressFn& fn) {
              Checkpointer().save(dir / "a", {.item = mixed_tree()}, {.progress = fn});
            }));
  EXPECT_EQ(bytes, seen_by([&](const ProgressFn& fn) {
              AsyncCheckpointer background;
              background.save(dir / "b", {.item = mixed_tree()}, {.progress = fn});
              background.wait_until_finished();
            }));
  EXPECT_EQ(bytes, seen_by([&](const ProgressFn& fn) {
              CheckpointManager manager(dir / "run");
              manager.save(1, {.item = mixed_tree()}, {.progress = fn});
              manager.close();
            }));
  for (const bool background : {false, true})
    EXPECT_EQ(bytes, seen_by([&](const ProgressFn& fn) {
                PyTreeCheckpointHandler handler;
                const PyTreeSaveArgs args{.item = mixed_tree(), .progress = fn};
                const std::string path = dir / (background ? "c" : "d");
                if (!background) return handler.save(path, args);
                for (const auto& future : handler.async_save(path, args)) future.get();
              }));
  EXPECT_EQ(2 * bytes, seen_by([&](const ProgressFn& fn) {
              const PyTreeSaveArgs tree{.item = mixed_tree()};
              Checkpointer().save_items(dir / "e", {{"x", tree}, {"y", tree}}, {.progress = fn});
            }));
  EXPECT_EQ(2 * bytes, seen_by([&](const ProgressFn& fn) {
              ConvertOptions options;
              options.format = TargetFormat::kOrbax;
              options.progress = fn;
              convert(*open(dir / "e"), dir / "f", options);
            }));
  EXPECT_THAT(
      [&] {
        Checkpointer().save(dir / "g", {.item = mixed_tree(), .progress = [](auto, auto) {}});
      },
      FailsWith(Code::kInvalidArgument, "CheckpointerSaveOptions::progress"));
}

// An exception of the callback ends the save; nothing is committed.
TEST(SaveDoors, ProgressThatThrowsEndsTheSave) {
  const TempDir dir;
  struct Stop {};
  const ProgressFn stop = [](auto, auto) { throw Stop(); };
  EXPECT_THROW(save(dir / "a", mixed_tree(), {.progress = stop}), Stop);
  EXPECT_THROW(Checkpointer().save(dir / "b", {.item = mixed_tree()}, {.progress = stop}), Stop);
  AsyncCheckpointer background;
  background.save(dir / "c", {.item = mixed_tree()}, {.progress = stop});
  EXPECT_THROW(background.wait_until_finished(), Stop);
  background.save(dir / "c", {.item = mixed_tree()});  // it works on
  background.wait_until_finished();
  CheckpointManager manager(dir / "run");
  manager.save(1, {.item = mixed_tree()}, {.progress = stop});
  EXPECT_THROW(manager.wait_until_finished(), Stop);
  EXPECT_TRUE(manager.all_steps().empty());
  for (const char* name : {"a", "b", "run/1"}) EXPECT_FALSE(file_exists(dir / name)) << name;
  // While the work goes on, the request to stop ends it: nothing else would.
  const SaveOptions slow{.compression = Compression::zstd(19), .progress = stop};
  Array noise = Array::allocate(DType::kUint8, {16 << 20});
  for (std::size_t i = 0; i < noise.bytes().size(); ++i)
    noise.mutable_view().data[i] = static_cast<std::byte>((i * 2654435761U) >> 13U);
  EXPECT_THROW(save(dir / "d", Tree(Tree::Dict{{"n", Tree(noise)}}), slow), Stop);
  EXPECT_FALSE(file_exists(dir / "d"));
}

TEST(SaveDoors, ACheckpointerWritesVersion1) {
  const TempDir dir;
  Checkpointer().save(dir / "a", {.item = mixed_tree()}, {.item = "state", .v1 = true});
  save(dir / "b", mixed_tree(), {.item = "state", .v1 = true});
  EXPECT_TRUE(file_exists(dir / "a/orbax.checkpoint"));
  EXPECT_EQ(files_of(dir / "a/state"), files_of(dir / "b/state"));
  EXPECT_EQ(open(dir / "a")->info().item_metadata, open(dir / "b")->info().item_metadata);
  EXPECT_THAT([&] { Checkpointer().save(dir / "c", {.item = mixed_tree()}, {.v1 = true}); },
              FailsWith(Code::kInvalidArgument, "give the item's name"));
  EXPECT_THAT(
      [&] {
        Checkpointer().save_items(dir / "c", {{"x", PyTreeSaveArgs{.item = mixed_tree()}}},
                                  {.v1 = true});
      },
      FailsWith(Code::kInvalidArgument, "'v1' is for one tree"));
}

// cairn::load gives back what was saved; a checkpointer records what Orbax records.
TEST(SaveDoors, EmptyNamedTuples) {
  const TempDir dir;
  const Tree tree(
      Tree::Dict{{"n", Tree(std::int64_t{1})}, {"t", Tree(Tree::NamedTuple{"m", "T", {}})}});
  save(dir / "save", tree);
  Checkpointer().save(dir / "checkpointer", {.item = tree});
  EXPECT_EQ(std::get<EmptyNode>(load(dir / "save").find("t")->value()), EmptyNode::kNamedTuple);
  EXPECT_EQ(std::get<EmptyNode>(load(dir / "checkpointer").find("t")->value()), EmptyNode::kNone);
}

// A merged database is checked for arrays without chunks. Those without elements have none.
TEST(SaveDoors, ProcessesSaveArraysWithoutElements) {
  const TempDir dir = TempDir::in_memory();
  const Sharding over_two = NamedSharding{make_mesh({2}, {"x"}), {{"x"}}};
  const auto errors = testing::run_as_processes(2, [&](const std::shared_ptr<Coordinator>& mine) {
    PyTreeCheckpointHandlerOptions options;
    options.multiprocessing_options.coordinator = mine;
    ShardedArray held =
        ShardedArray::from_array(Array::allocate(DType::kFloat32, {0, 4}), over_two);
    std::erase_if(held.shards, [&](const ArrayShard& shard) {
      return shard.device_id != static_cast<std::int64_t>(mine->process_index());
    });
    Checkpointer(options).save(
        dir / "a", {.item = Tree(Tree::Dict{{"device", Tree(CustomLeaf::of(held))},
                                            {"host", Tree(Array::allocate(DType::kInt8, {2, 0}))},
                                            {"n", Tree(std::int64_t{1})}})});
  });
  for (const auto& error : errors) EXPECT_FALSE(error) << error->message();
  const Tree back = Checkpointer().restore(dir / "a");
  EXPECT_EQ(back.find("device")->custom<ShardedArray>()->shape, (Shape{0, 4}));
  EXPECT_EQ(back.find("host")->array()->shape(), (Shape{2, 0}));
}

// A handler that describes an array and forgets its elements.
class Forgetful : public CelsiusHandler {
  Futures serialize(std::span<const Tree>, std::span<const ParamInfo> infos,
                    std::span<const SaveArgs>) const override {
    StoreArray array;
    array.name = infos[0].name;
    infos[0].writer->add_array(std::move(array));
    return {};
  }
};

TEST(SaveDoors, ArraysWithoutASourceAreRefused) {
  const TempDir dir;
  auto registry = std::make_shared<TypeHandlerRegistry>(standard_type_handlers());
  registry->add(typeid(Celsius), std::make_shared<Forgetful>());
  PyTreeCheckpointHandlerOptions options;
  options.type_handler_registry = registry;
  EXPECT_THAT(
      [&] {
        Checkpointer(options).save(
            dir / "a", {.item = Tree(Tree::Dict{{"t", Tree(CustomLeaf::of(Celsius{}))}})});
      },
      testing::FailsWith(Code::kInvalidArgument, "t: its type handler gave no elements"));
}

}  // namespace
}  // namespace cairn
