// processes_test.cc -- saves by several processes: every byte of random arrays on random meshes
// over processes and their devices; what each process writes; what fails in one, at every stage;
// processes that do not agree. The processes are threads here.
#include <cairn/cairn.h>
#include <cairn/io/file.h>
#include <cairn/orbax/checkpointer.h>
#include <cairn/orbax/handlers.h>
#include <cairn/orbax/layout/layout.h>
#include <cairn/orbax/leaf_args.h>
#include <cairn/orbax/pytree_checkpoint_handler.h>
#include <cairn/orbax/sharding.h>
#include <cairn/storage/kvstore.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <filesystem>
#include <map>
#include <mutex>
#include <numeric>
#include <random>
#include <string>

#include "tests/support/handlers.h"
#include "tests/support/matchers.h"
#include "tests/support/processes.h"
#include "tests/support/same_bytes.h"
#include "tests/support/temp_dir.h"

namespace cairn {
namespace {

using ::testing::ElementsAre;
using testing::FailsWith;
using ::testing::HasSubstr;
using testing::run_as_processes;
using testing::same_array;
using testing::TempDir;

using Job = std::shared_ptr<Coordinator>;
using Errors = std::vector<std::optional<Error>>;

Array numbers(DType dtype, Shape shape, std::uint64_t seed) {
  Array array = Array::allocate(dtype, std::move(shape));
  std::mt19937_64 random(seed);
  auto* at = array.mutable_view().data;
  for (std::size_t i = 0; i < array.bytes().size(); ++i)
    at[i] = static_cast<std::byte>(random() & 0x7fU);
  return array;
}

PyTreeCheckpointHandlerOptions options_of(const Job& job,
                                          Coordinator::Timeout timeout = std::chrono::seconds(60)) {
  PyTreeCheckpointHandlerOptions options;
  options.multiprocessing_options = {
      .coordinator = job, .timeout = timeout, .write_timeout = timeout};
  options.resources.threads = 1;
  return options;
}

void expect_none(const Errors& errors) {
  for (std::size_t p = 0; p < errors.size(); ++p)
    EXPECT_FALSE(errors[p]) << "process " << p << ": " << errors[p]->message();
}

// Devices first * n to first * n + n - 1, scattered over the mesh: processes hold boxes here and
// there.
struct Cluster {
  std::size_t processes = 1;
  std::size_t devices = 1;  // of each
  [[nodiscard]] std::size_t size() const { return processes * devices; }
  [[nodiscard]] std::vector<std::int64_t> devices_of(std::size_t process) const {
    std::vector<std::int64_t> ids(devices);
    std::iota(ids.begin(), ids.end(), static_cast<std::int64_t>(process * devices));
    return ids;
  }
};

std::size_t below(std::mt19937& random, std::size_t n) { return random() % n; }

// A mesh of all devices in some order, its axes some factors of their number, and a spec that
// splits dimensions by some of its axes.
struct Drawn {
  NamedSharding sharding;
  Shape shape;
};
Drawn render_sharding(std::mt19937& random, const Cluster& cluster) {
  Drawn out;
  Mesh& mesh = out.sharding.mesh;
  for (std::size_t left = cluster.size(); left > 1;) {
    std::vector<std::size_t> factors;
    for (std::size_t f = 2; f <= left; ++f)
      if (left % f == 0) factors.push_back(f);
    const std::size_t factor = factors[below(random, factors.size())];
    mesh.shape.push_back(static_cast<std::int64_t>(factor));
    left /= factor;
  }
  if (mesh.shape.empty() || below(random, 4) == 0) mesh.shape.push_back(1);
  for (std::size_t i = 0; i < mesh.shape.size(); ++i) {
    mesh.axis_names.push_back("axis" + std::to_string(i));
    mesh.axis_types.push_back(AxisType::kAuto);
  }
  std::vector<std::int64_t> ids(cluster.size());
  std::iota(ids.begin(), ids.end(), 0);
  std::shuffle(ids.begin(), ids.end(), random);
  mesh.device_ids = std::move(ids);
  std::vector<std::size_t> axes(mesh.shape.size());
  std::iota(axes.begin(), axes.end(), 0U);
  std::shuffle(axes.begin(), axes.end(), random);
  const std::size_t rank = below(random, 4);
  for (std::size_t d = 0; d < rank; ++d) {
    std::int64_t split = 1;
    std::vector<std::string> names;
    while (!axes.empty() && below(random, 2) == 0) {
      names.push_back(mesh.axis_names[axes.back()]);
      split *= mesh.shape[axes.back()];
      axes.pop_back();
    }
    out.sharding.spec.push_back(std::move(names));
    constexpr std::int64_t kParts[] = {1, 2, 3, 4, 6};
    out.shape.push_back(split * kParts[below(random, 5)]);
  }
  while (!out.sharding.spec.empty() && out.sharding.spec.back().empty() && below(random, 2) == 0)
    out.sharding.spec.pop_back();
  return out;
}

// The array as one of its processes has it; in memory, strided or not, or to be copied from its
// devices.
ShardedArray held_by(const Array& array, const Sharding& sharding,
                     std::span<const std::int64_t> devices, bool on_device) {
  ShardedArray held = ShardedArray::from_array(array, sharding, devices);
  if (!on_device) return held;
  for (ArrayShard& shard : held.shards) {
    const auto memory = std::get<HostMemory>(shard.source);
    shard.source = ShardCopy([memory](const Box& part, const MutableArrayView& out) {
      ArrayView from = memory.view;
      for (std::size_t d = 0; d < part.rank(); ++d) from.data += part.origin[d] * from.strides[d];
      from.shape = part.shape;
      // Element by element, as a device that knows nothing of strides would.
      std::vector<std::int64_t> at(part.rank(), 0);
      for (std::int64_t n = element_count(part.shape); n > 0; --n) {
        std::int64_t source = 0, target = 0;
        for (std::size_t d = 0; d < at.size(); ++d) {
          source += at[d] * from.strides[d];
          target += at[d] * out.strides[d];
        }
        std::memcpy(out.data + target, from.data + source, from.element_size);
        for (std::size_t d = at.size(); d-- > 0;) {
          if (++at[d] < part.shape[d]) break;
          at[d] = 0;
        }
      }
    });
  }
  return held;
}

struct Case {
  std::size_t processes;
  unsigned seed;
};
void PrintTo(const Case& of, std::ostream* out) {
  *out << of.processes << " processes, seed " << of.seed;
}

class RandomSave : public ::testing::TestWithParam<Case> {};

TEST_P(RandomSave, EveryByteIsThere) {
  std::mt19937 random(GetParam().seed * 8 + static_cast<unsigned>(GetParam().processes));
  const Cluster cluster{GetParam().processes, std::size_t{1} << below(random, 3)};
  constexpr DType kTypes[] = {DType::kFloat32, DType::kInt8, DType::kBfloat16, DType::kComplex128,
                              DType::kBool};
  struct Leaf {
    Array array;
    NamedSharding sharding;
    bool on_device;
  };
  std::vector<Leaf> leaves;
  for (int i = 0; i < 6; ++i) {
    Drawn drawn = render_sharding(random, cluster);
    const DType dtype = kTypes[below(random, 5)];
    leaves.push_back(
        {numbers(dtype, drawn.shape, random()), drawn.sharding, below(random, 2) == 0});
    if (dtype == DType::kBool)
      for (auto* b = leaves.back().array.mutable_view().data;
           auto& byte : std::span(b, leaves.back().array.bytes().size()))
        byte &= std::byte{1};
  }
  const Array host = numbers(DType::kInt16, {3, 4}, 7);
  ArrayHandler::Options array;
  array.use_replica_parallel = below(random, 3) != 0;
  array.enable_replica_parallel_separate_folder = below(random, 2) == 0;
  if (below(random, 4) == 0) array.min_slice_bytes_for_replica_parallel = 50;
  if (below(random, 4) == 0) array.max_replicas_for_replica_parallel = 2;
  const bool ocdbt = below(random, 3) != 0;
  const bool zarr3 = below(random, 2) == 0;
  const bool background = below(random, 2) == 0;
  const std::size_t primary = below(random, cluster.processes);
  const bool small_memory = below(random, 4) == 0;
  const bool small_chunks = below(random, 3) == 0;

  const TempDir dir = TempDir::in_memory();
  const auto errors = run_as_processes(cluster.processes, [&](const Job& job) {
    PyTreeCheckpointHandlerOptions options = options_of(job);
    options.multiprocessing_options.primary_host = primary;
    options.use_ocdbt = ocdbt;
    options.use_zarr3 = zarr3;
    options.type_handler_registry = with_array_options(array);
    // What one process can spare decides for all.
    if (small_memory) options.resources.memory = 200 + job->process_index();
    Tree::Dict tree, args;
    for (std::size_t i = 0; i < leaves.size(); ++i) {
      const auto devices = cluster.devices_of(job->process_index());
      const std::string name = "w" + std::to_string(i);
      tree.emplace_back(name, CustomLeaf::of(held_by(leaves[i].array, leaves[i].sharding, devices,
                                                     leaves[i].on_device)));
      args.emplace_back(name, small_chunks ? Tree(SaveArgs{.chunk_byte_size = 32}) : Tree());
    }
    // Only the primary's counts.
    const bool mine = job->process_index() == primary;
    tree.emplace_back("host",
                      mine ? host : numbers(DType::kInt16, {3, 4}, job->process_index() + 100));
    tree.emplace_back("name", std::string(mine ? "primary" : "other"));
    tree.emplace_back("step", std::int64_t{mine ? 12 : 13});
    tree.emplace_back("nothing", Tree());
    for (const char* name : {"host", "name", "step", "nothing"}) args.emplace_back(name, Tree());
    const PyTreeSaveArgs save{.item = Tree(std::move(tree)), .save_args = Tree(std::move(args))};
    if (background) {
      AsyncCheckpointer checkpointer(options);
      checkpointer.save(dir / "ckpt", save);
      checkpointer.wait_until_finished();
    } else {
      Checkpointer(options).save(dir / "ckpt", save);
    }
    EXPECT_TRUE(file_exists(dir / "ckpt/commit_success.txt"));  // for all, when any has returned
  });
  expect_none(errors);

  EXPECT_FALSE(open(dir / "ckpt")->verify({}).damaged());
  const Tree back = Checkpointer().restore(dir / "ckpt");
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    const auto* restored = back.find("w" + std::to_string(i))->custom<ShardedArray>();
    ASSERT_NE(restored, nullptr);
    EXPECT_EQ(std::get<NamedSharding>(restored->sharding), leaves[i].sharding);
    EXPECT_TRUE(same_array(gather_shards(*restored), leaves[i].array))
        << "w" << i << " " << sharding_text(leaves[i].sharding);
  }
  EXPECT_TRUE(same_array(*back.find("host")->array(), host));
  EXPECT_EQ(std::get<std::string>(back.find("name")->value()), "primary");
  EXPECT_EQ(std::get<std::int64_t>(back.find("step")->value()), 12);
  // All say the same of the arrays.
  for (std::size_t p = 0; p < cluster.processes; ++p)
    EXPECT_EQ(read_file(dir / ("ckpt/array_metadatas/process_" + std::to_string(p))),
              read_file(dir / "ckpt/array_metadatas/process_0"));
  EXPECT_FALSE(file_exists(dir / "ckpt.orbax-checkpoint-tmp"));
}

std::vector<Case> cases() {
  std::vector<Case> out;
  for (const std::size_t processes : {2U, 4U, 8U, 1U, 3U})
    for (unsigned seed = 0; seed < 30; ++seed) out.push_back({processes, seed});
  return out;
}
// A process that is alone has arrays whole, of which Orbax makes no host-local ones either.
INSTANTIATE_TEST_SUITE_P(Random, RandomSave, ::testing::ValuesIn(cases()));

// ---- what each process writes ----

// Two processes with two devices each.
constexpr Cluster kFour{2, 2};

Tree tree_of(std::size_t process,
             const std::vector<std::pair<std::string, PartitionSpec>>& arrays) {
  Tree::Dict tree;
  for (const auto& [name, spec] : arrays) {
    const NamedSharding sharding{make_mesh({2, 2}, {"x", "y"}), spec};
    // Values too large to be kept in the tree of a database.
    tree.emplace_back(name, CustomLeaf::of(held_by(numbers(DType::kInt32, {64, 64}, 3), sharding,
                                                   kFour.devices_of(process), false)));
  }
  tree.emplace_back("n", std::int64_t{5});
  return Tree(std::move(tree));
}

std::vector<std::string> keys_of(const std::string& folder) {
  std::vector<std::string> keys;
  for (const ListEntry& entry : open_ocdbt(open_file_store(folder))->list(""))
    keys.push_back(entry.key);
  return keys;
}

TEST(Processes, EachHasADatabaseOfItsOwnAndThePrimaryTheMetadata) {
  const TempDir dir = TempDir::in_memory();
  expect_none(run_as_processes(2, [&](const Job& job) {
    ArrayHandler::Options array;
    array.enable_replica_parallel_separate_folder = true;
    PyTreeCheckpointHandlerOptions options = options_of(job);
    options.type_handler_registry = with_array_options(array);
    Checkpointer(options).save(
        dir / "a",
        {.item = tree_of(job->process_index(), {{"both", {{"x"}, {"y"}}}, {"repl", {{"x"}}}})});
  }));
  EXPECT_THAT(keys_of(dir / "a/ocdbt.process_0"),
              ElementsAre("both/.zarray", "both/0.0", "both/0.1", "n/.zarray", "n/0"));
  EXPECT_THAT(keys_of(dir / "a/ocdbt.process_1"), ElementsAre("both/1.0", "both/1.1"));
  EXPECT_THAT(keys_of(dir / "a/ocdbt.process_replica_0"),
              ElementsAre("repl/.zarray", "repl/0.0", "repl/1.0"));
  EXPECT_THAT(keys_of(dir / "a/ocdbt.process_replica_1"), ElementsAre("repl/2.0", "repl/3.0"));
  EXPECT_EQ(keys_of(dir / "a").size(), 12U);
  // Merged by reference: the common database has no value of its own.
  std::uintmax_t bytes = 0;
  for (const auto& file : std::filesystem::directory_iterator(dir / "a/d"))
    bytes += file.file_size();
  EXPECT_LT(bytes, 2000U);
}

TEST(Processes, WithoutADatabaseAllWriteIntoTheSameFolders) {
  const TempDir dir = TempDir::in_memory();
  expect_none(run_as_processes(2, [&](const Job& job) {
    PyTreeCheckpointHandlerOptions options = options_of(job);
    options.use_ocdbt = false;
    Checkpointer(options).save(dir / "a",
                               {.item = tree_of(job->process_index(), {{"both", {{"x"}, {"y"}}}})});
  }));
  const auto listing = orbax::list_directory(dir / "a/both");
  EXPECT_THAT(listing.files, ElementsAre(".zarray", "0.0", "0.1", "1.0", "1.1"));
  EXPECT_THAT(orbax::list_directory(dir / "a").folders,
              ElementsAre("array_metadatas", "both", "n"));
}

// One process may have the part of an array that shrinks; the codecs are the array's.
TEST(Processes, AgreeOnTheCodecsOfZarr3) {
  constexpr std::int64_t kHalf = 200'000;
  const auto array = [&](bool first, bool second) {
    Array out = Array::allocate(DType::kUint8, {2 * kHalf});
    std::byte* data = out.mutable_view().data;
    std::mt19937 random(5);
    for (std::int64_t i = 0; i < 2 * kHalf; ++i)
      data[i] = (i < kHalf ? first : second) ? static_cast<std::byte>(random()) : std::byte{0};
    return out;
  };
  const std::map<std::string, Array> arrays{{"noise", array(true, true)},
                                            {"mixed", array(true, false)},
                                            {"mixed2", array(false, true)},
                                            {"zeros", array(false, false)}};
  for (const bool ocdbt : {false, true}) {
    const TempDir dir = TempDir::in_memory();
    expect_none(run_as_processes(2, [&](const Job& job) {
      PyTreeCheckpointHandlerOptions options = options_of(job);
      options.use_ocdbt = ocdbt;
      options.use_zarr3 = true;
      Tree::Dict tree;
      for (const auto& [name, elements] : arrays)
        tree.emplace_back(
            name, CustomLeaf::of(held_by(elements, NamedSharding{make_mesh({2}, {"x"}), {{"x"}}},
                                         Cluster{2, 1}.devices_of(job->process_index()), false)));
      Checkpointer(options).save(dir / "a", {.item = Tree(std::move(tree))});
    }));
    const StorePtr files = open_file_store(dir / "a");
    const StorePtr store = ocdbt ? open_ocdbt(files) : files;
    for (const auto& [name, elements] : arrays) {
      const auto metadata = store->read_at_most(name + "/zarr.json", 1U << 20U);
      ASSERT_TRUE(metadata);
      EXPECT_EQ(as_text(*metadata).find("zstd") == std::string_view::npos, name == "noise") << name;
      EXPECT_TRUE(same_array(open(dir / "a")->read(name), elements)) << name;
    }
    EXPECT_THAT(open(dir / "a")->verify({}).unprotected, ElementsAre());
  }
}

TEST(Processes, AProcessWithoutShardsWritesNoDatabase) {
  const TempDir dir = TempDir::in_memory();
  const Array array = numbers(DType::kInt32, {8}, 1);
  expect_none(run_as_processes(3, [&](const Job& job) {
    // Devices 0 and 1 are process 0's and 1's; process 2 has none of them.
    const std::int64_t mine = static_cast<std::int64_t>(job->process_index());
    const NamedSharding sharding{make_mesh({2}, {"x"}), {{"x"}}};
    ShardedArray held = ShardedArray::from_array(array, sharding, std::span(&mine, 1));
    Checkpointer(options_of(job))
        .save(dir / "a", {.item = Tree(Tree::Dict{{"w", Tree(std::move(held))}})});
  }));
  EXPECT_FALSE(file_exists(dir / "a/ocdbt.process_2"));
  EXPECT_TRUE(file_exists(dir / "a/array_metadatas/process_2"));
  EXPECT_TRUE(same_array(
      gather_shards(*Checkpointer().restore(dir / "a").find("w")->custom<ShardedArray>()), array));
}

// Every process for itself, on a disk of its own.
TEST(Processes, WithoutAPrimaryEachSavesWhatItHolds) {
  const TempDir dir = TempDir::in_memory();
  const Array array = numbers(DType::kInt32, {64, 64}, 3);
  expect_none(run_as_processes(2, [&](const Job& job) {
    PyTreeCheckpointHandlerOptions options = options_of(job);
    options.multiprocessing_options.primary_host = std::nullopt;
    ArrayHandler::Options handler;
    handler.replica_id = std::nullopt;
    handler.use_replica_parallel = false;
    options.type_handler_registry = with_array_options(handler);
    const std::string path = dir / std::to_string(job->process_index());
    Checkpointer(options).save(path, {.item = tree_of(job->process_index(), {{"w", {{}, {"y"}}}})});
  }));
  for (const std::string p : {"0", "1"}) {
    EXPECT_TRUE(file_exists(dir / (p + "/_METADATA")));
    EXPECT_TRUE(file_exists(dir / (p + "/array_metadatas/process_" + p)));
    EXPECT_THAT(keys_of(dir / (p + "/ocdbt.process_" + p)),
                ElementsAre("n/.zarray", "n/0", "w/.zarray", "w/0.0", "w/0.1"));
    EXPECT_TRUE(same_array(
        gather_shards(*Checkpointer().restore(dir / p).find("w")->custom<ShardedArray>()), array));
  }
}

TEST(Processes, OneAfterTheOtherAndOverWhatIsThere) {
  const TempDir dir = TempDir::in_memory();
  expect_none(run_as_processes(2, [&](const Job& job) {
    AsyncCheckpointer checkpointer(options_of(job));
    const PyTreeSaveArgs args{.item = tree_of(job->process_index(), {{"w", {{"y"}}}})};
    for (int i = 0; i < 3; ++i) checkpointer.save(dir / std::to_string(i), args);
    checkpointer.save(dir / "0", args, {.if_exists = IfExists::kReplace});
    checkpointer.close();
  }));
  for (const char* name : {"0", "1", "2"}) EXPECT_FALSE(open(dir / name)->verify({}).damaged());
  EXPECT_EQ(orbax::list_directory(dir.path()).folders.size(), 3U);
}

// ---- what fails in one ----

// How a process can fail, and with which words the others then end.
struct Failure {
  const char* name;
  std::size_t process;
  std::function<void(const Job&, const std::string& path)> save;  // what that process does instead
  const char* others;
};
void PrintTo(const Failure& failure, std::ostream* out) { *out << failure.name; }

void save_well(const Job& job, const std::string& path,
               Coordinator::Timeout timeout = std::chrono::seconds(60)) {
  Checkpointer(options_of(job, timeout))
      .save(path, {.item = tree_of(job->process_index(), {{"w", {{"x"}}}})});
}

Tree with_source(const Job& job, const ShardCopy& source) {
  Tree tree = tree_of(job->process_index(), {{"w", {{"x"}}}});
  ShardedArray array = *tree.find("w")->custom<ShardedArray>();
  for (ArrayShard& shard : array.shards) shard.source = source;
  return Tree(Tree::Dict{{"w", Tree(std::move(array))}, {"n", Tree(std::int64_t{5})}});
}

class FailingAtTheEnd : public StringHandler {
  void finalize(const std::string&) const override { throw Error(Code::kUnavailable, "not today"); }
};

const Failure kFailures[] = {
    {"never comes", 1, [](const Job&, const std::string&) {}, "process 1 ended before arriving"},
    {"the primary never comes", 0, [](const Job&, const std::string&) {},
     "process 0 ended before arriving"},
    {"has another path", 1,
     [](const Job& job, const std::string& path) { save_well(job, path + "x"); },
     "do not save the same checkpoint"},
    {"has a bad path", 1, [](const Job& job, const std::string&) { save_well(job, ""); },
     "process 1: the path"},
    {"cannot make the folder", 0,
     [](const Job& job, const std::string& path) {
       PyTreeCheckpointHandlerOptions options = options_of(job);
       Checkpointer(options).save(path, {.item = Tree(std::int64_t{1})},
                                  {.if_exists = IfExists::kFail, .custom_metadata = "[1]"});
     },
     "process 0: the checkpoint's custom metadata is"},
    {"has a leaf that nobody handles", 1,
     [](const Job& job, const std::string& path) {
       Checkpointer(options_of(job))
           .save(path, {.item = Tree(Tree::Dict{{"w", Tree(std::complex<double>(1, 2))}})});
     },
     "process 1: type handler lookup failed for 'w'"},
    {"writes otherwise", 1,
     [](const Job& job, const std::string& path) {
       PyTreeCheckpointHandlerOptions options = options_of(job);
       options.use_zarr3 = true;
       Checkpointer(options).save(path, {.item = tree_of(1, {{"w", {{"x"}}}})});
     },
     "the processes do not save in the same way: process 1 makes an OCDBT database, Zarr v3"},
    {"has an array more", 1,
     [](const Job& job, const std::string& path) {
       Checkpointer(options_of(job))
           .save(path, {.item = tree_of(1, {{"w", {{"x"}}}, {"b", {{"x"}}}})});
     },
     "w: process 1 has b instead"},
    {"lacks an array", 1,
     [](const Job& job, const std::string& path) {
       Checkpointer(options_of(job)).save(path, {.item = tree_of(1, {})});
     },
     "w: process 0 has it, process 1 does not"},
    {"divides the array otherwise", 1,
     [](const Job& job, const std::string& path) {
       Checkpointer(options_of(job)).save(path, {.item = tree_of(1, {{"w", {{"x"}, {"y"}}}})});
     },
     "w: process 1 saves it in pieces of (32, 32)"},
    {"takes other devices for the same", 1,
     [](const Job& job, const std::string& path) {
       Checkpointer(options_of(job)).save(path, {.item = tree_of(0, {{"w", {{"x"}}}})});
     },
     "w: all processes together hold 4 pieces of it, expected 4 pieces of (16, 64)"},
    {"gives only one of its shards", 1,
     [](const Job& job, const std::string& path) {
       Tree tree = tree_of(1, {{"w", {{"x"}}}});
       ShardedArray array = *tree.find("w")->custom<ShardedArray>();
       array.shards.pop_back();
       Checkpointer(options_of(job))
           .save(path, {.item = Tree(Tree::Dict{{"w", Tree(std::move(array))}})});
     },
     "w: all processes together hold 3 pieces of it, expected 4"},
    {"cannot copy from its device", 1,
     [](const Job& job, const std::string& path) {
       const auto source = [](const Box&, const MutableArrayView&) {
         throw Error(Code::kUnavailable, "the device is gone");
       };
       Checkpointer(options_of(job)).save(path, {.item = with_source(job, source)});
     },
     "process 1: the shard on device 2: the device is gone"},
    {"the primary cannot copy from its device", 0,
     [](const Job& job, const std::string& path) {
       const auto source = [](const Box&, const MutableArrayView&) {
         throw Error(Code::kUnavailable, "the device is gone");
       };
       Checkpointer(options_of(job)).save(path, {.item = with_source(job, source)});
     },
     "process 0: the shard on device 0: the device is gone"},
    {"cannot write", 1,
     [](const Job& job, const std::string& path) {
       const auto source = [&](const Box&, const MutableArrayView& out) {
         std::memset(out.data, 0,
                     static_cast<std::size_t>(element_count(out.shape)) * out.element_size);
         // somebody, or another process's copy of this, may have been first
         std::error_code ignored;
         std::filesystem::create_directories(
             path + ".orbax-checkpoint-tmp/array_metadatas/process_1", ignored);
       };
       Checkpointer(options_of(job)).save(path, {.item = with_source(job, source)});
     },
     "process 1: "},
    {"the primary cannot finalize", 0,
     [](const Job& job, const std::string& path) {
       auto registry = std::make_shared<TypeHandlerRegistry>(standard_type_handlers());
       registry->add(typeid(std::string), std::make_shared<FailingAtTheEnd>(), {nullptr, true});
       PyTreeCheckpointHandlerOptions options = options_of(job);
       options.type_handler_registry = registry;
       Checkpointer(options).save(path, {.item = tree_of(0, {{"w", {{"x"}}}})});
     },
     "process 0: not today"},
};

class FailingSave : public ::testing::TestWithParam<Failure> {};
INSTANTIATE_TEST_SUITE_P(Processes, FailingSave, ::testing::ValuesIn(kFailures));

TEST_P(FailingSave, FailsInAllAndNothingAppears) {
  const Failure& failure = GetParam();
  const TempDir dir = TempDir::in_memory();
  const auto errors = run_as_processes(2, [&](const Job& job) {
    job->process_index() == failure.process ? failure.save(job, dir / "a")
                                            : save_well(job, dir / "a");
  });
  const auto& other = errors[1 - failure.process];
  ASSERT_TRUE(other);
  EXPECT_THAT(other->message(), HasSubstr(failure.others));
  const bool comes = std::string_view(failure.name).find("never comes") == std::string_view::npos;
  EXPECT_EQ(errors[failure.process].has_value(), comes);
  EXPECT_FALSE(file_exists(dir / "a"));
  // What is there tells by its name that it is unfinished, and by its metadata when it was begun.
  const std::string left = dir / "a.orbax-checkpoint-tmp";
  if (file_exists(left)) {
    const std::string text(as_text(read_file(left + "/_CHECKPOINT_METADATA")));
    EXPECT_THAT(text, HasSubstr("init_timestamp_nsecs"));
    EXPECT_THAT(text, HasSubstr("\"commit_timestamp_nsecs\": null"));
    EXPECT_THAT([&] { static_cast<void>(Checkpointer().restore(left)); },
                FailsWith(Code::kFailedPrecondition, "incomplete"));
  }
  // The next save works, and takes away what is left, but for a folder that no save makes.
  std::error_code ignored;
  std::filesystem::remove(left + "/array_metadatas/process_1", ignored);
  expect_none(run_as_processes(2, [&](const Job& job) { save_well(job, dir / "a"); }));
  EXPECT_FALSE(open(dir / "a")->verify({}).damaged());
  EXPECT_FALSE(file_exists(left));
}

TEST(Processes, OneThatHangsIsNamedWhenTheTimeIsOver) {
  const TempDir dir = TempDir::in_memory();
  std::atomic<int> given_up = 0;
  const auto errors = run_as_processes(3, [&](const Job& job) {
    // for who hangs, and not for who is slow on a busy machine
    const auto timeout = std::chrono::seconds(3);
    if (job->process_index() < 2) {
      const Tree tree = tree_of(job->process_index(), {{"w", {{"x"}}}});
      const Tree hangs = with_source(job, [&](const Box&, const MutableArrayView&) {
        while (given_up.load() < 2) std::this_thread::yield();
      });
      try {
        Checkpointer(options_of(job, timeout))
            .save(dir / "a", {.item = job->process_index() == 1 ? hangs : tree});
      } catch (const Error&) {
        ++given_up;
        throw;
      }
    } else {
      // Its shards are none, but it saves with the others.
      Tree tree = tree_of(0, {{"w", {{"x"}}}});
      ShardedArray array = *tree.find("w")->custom<ShardedArray>();
      array.shards.clear();
      try {
        Checkpointer(options_of(job, timeout))
            .save(dir / "a", {.item = Tree(Tree::Dict{{"w", Tree(array)}})});
      } catch (const Error&) {
        ++given_up;
        throw;
      }
    }
  });
  for (const auto& error : errors) {
    ASSERT_TRUE(error);
    EXPECT_EQ(error->code(), Code::kUnavailable);
    EXPECT_THAT(error->message(),
                HasSubstr("'save: write': process 1 did not arrive before process"));
  }
  EXPECT_FALSE(file_exists(dir / "a"));
  EXPECT_TRUE(file_exists(dir / "a.orbax-checkpoint-tmp"));
}

TEST(Processes, AFailureInTheBackgroundComesOnceInEach) {
  const TempDir dir = TempDir::in_memory();
  const auto errors = run_as_processes(2, [&](const Job& job) {
    PyTreeCheckpointHandlerOptions options = options_of(job);
    options.is_prioritized_key_fn = [](const KeyPath&) { return false; };
    AsyncCheckpointer checkpointer(options);
    const bool fails = job->process_index() == 1;
    const auto source = [](const Box&, const MutableArrayView&) {
      throw Error(Code::kUnavailable, "the device is gone");
    };
    checkpointer.save(dir / "a",
                      {.item = fails ? with_source(job, source) : tree_of(0, {{"w", {{"x"}}}})});
    EXPECT_THAT([&] { checkpointer.wait_until_finished(); },
                FailsWith(Code::kUnavailable, "the device is gone"));
    checkpointer.check_for_errors();
    checkpointer.save(dir / "a", {.item = tree_of(job->process_index(), {{"w", {{"x"}}}})});
    checkpointer.close();
  });
  expect_none(errors);
  EXPECT_FALSE(open(dir / "a")->verify({}).damaged());
}

TEST(Processes, RefusesAnExistingCheckpointInAllProcesses) {
  const TempDir dir = TempDir::in_memory();
  expect_none(run_as_processes(2, [&](const Job& job) {
    save_well(job, dir / "a");
    EXPECT_THAT([&] { save_well(job, dir / "a"); },
                FailsWith(Code::kAlreadyExists, "already exists"));
  }));
}

TEST(Processes, SaveOneItemOfAStepTogether) {
  const TempDir dir = TempDir::in_memory();
  expect_none(run_as_processes(2, [&](const Job& job) {
    const Tree tree = tree_of(job->process_index(), {{"w", {{"x"}}}});
    Checkpointer checkpointer(options_of(job));
    const std::string other = job->process_index() == 0 ? "default" : "params";
    EXPECT_THAT([&] { checkpointer.save(dir / "3", {.item = tree}, {.item = other}); },
                FailsWith(Code::kInvalidArgument, "do not save the same checkpoint"));
    checkpointer.save(dir / "4", {.item = tree}, {.item = "default"});
  }));
  EXPECT_FALSE(open(dir / "4", {.item = "default"})->verify({}).damaged());
}

TEST(Processes, HostLocalArraysAreRefused) {
  const TempDir dir = TempDir::in_memory();
  expect_none(run_as_processes(2, [&](const Job& job) {
    const ShardedArray local =
        ShardedArray::from_array(numbers(DType::kInt8, {4}, 1), SingleDeviceSharding{"cpu:0"});
    EXPECT_THAT(
        [&] {
          Checkpointer(options_of(job))
              .save(dir / "a", {.item = Tree(Tree::Dict{{"w", Tree(local)}})});
        },
        FailsWith(Code::kInvalidArgument, "w: all of its devices belong to this process"));
  }));
}

TEST(Processes, ThoseWhoRecordedDifferentThingsAreNamed) {
  const TempDir dir = TempDir::in_memory();
  const auto errors = run_as_processes(3, [&](const Job& job) {
    PyTreeCheckpointHandler handler(options_of(job));
    Tree tree = tree_of(std::min<std::size_t>(job->process_index(), 1), {{"w", {{"x"}}}});
    ShardedArray array = *tree.find("w")->custom<ShardedArray>();
    if (job->process_index() == 2) array.shards.clear();
    handler.save(dir / "a", {.item = Tree(Tree::Dict{{"w", Tree(array)}})});
    job->barrier("saved", std::chrono::seconds(60));
    if (job->process_index() != 0) return handler.finalize(dir / "a");  // the primary's
    const std::string file = dir / "a/array_metadatas/process_2";
    const std::string text(as_text(read_file(file)));
    std::string changed = text;
    const std::string_view pieces = R"("write_shape": [16, 64])";
    changed.replace(changed.find(pieces), pieces.size(), R"("write_shape": [64, 64])");
    testing::put_file(file, changed);
    EXPECT_THAT([&] { handler.finalize(dir / "a"); },
                FailsWith(Code::kDataLoss,
                          "process_2, compared with process_0: w: processes wrote it in pieces of "
                          "(16, 64) and (64, 64)"));
    std::filesystem::remove(file);
    EXPECT_THAT([&] { handler.finalize(dir / "a"); },
                FailsWith(Code::kDataLoss, "process 2 of 3 has recorded no arrays"));
    testing::put_file(file, text);
    handler.finalize(dir / "a");
  });
  expect_none(errors);
}

}  // namespace
}  // namespace cairn
