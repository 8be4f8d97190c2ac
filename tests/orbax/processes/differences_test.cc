// differences_test.cc -- two processes, which are threads here, save together with one option that
// differs. Either the save ignores the option, or both processes learn at once how they differ:
// none of them waits for the other until the timeout.
#include <cairn/checkpoint_manager.h>
#include <cairn/orbax/checkpointer.h>
#include <cairn/orbax/handlers.h>
#include <cairn/orbax/leaf_args.h>
#include <cairn/orbax/save/save.h>
#include <cairn/orbax/sharding.h>
#include <gmock/gmock.h>

#include <chrono>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/handlers.h"
#include "tests/support/matchers.h"
#include "tests/support/processes.h"
#include "tests/support/random_bytes.h"
#include "tests/support/temp_dir.h"

namespace cairn {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using testing::run_as_processes;
using testing::TempDir;

using Job = std::shared_ptr<Coordinator>;
using Errors = std::vector<std::optional<Error>>;

// Everything that a save is called with.
struct SaveCall {
  PyTreeCheckpointHandlerOptions handler;
  PyTreeSaveArgs tree;
  CheckpointerSaveOptions save;
  bool is_async = false;
};

// Two replicas of two halves.
Tree tree_of(std::size_t process) {
  Array array = Array::allocate(DType::kInt32, {64, 64});
  testing::fill_random({array.mutable_view().data, array.bytes().size()}, 1);
  const std::vector<std::int64_t> devices{static_cast<std::int64_t>(2 * process),
                                          static_cast<std::int64_t>(2 * process + 1)};
  const NamedSharding sharding{make_mesh({2, 2}, {"x", "y"}), {{"x"}}};
  return Tree(Tree::Dict{{"n", Tree(std::int64_t{5})},
                         {"w", Tree(ShardedArray::from_array(array, sharding, devices))}});
}

MultiprocessingOptions together(const Job& job) {
  constexpr auto kTimeout = std::chrono::seconds(20);  // to be reached by no test
  return {.coordinator = job, .timeout = kTimeout, .write_timeout = kTimeout};
}

SaveCall call_of(const Job& job) {
  SaveCall call;
  call.handler.multiprocessing_options = together(job);
  call.handler.resources.threads = 1;
  call.tree.item = tree_of(job->process_index());
  return call;
}

void save(const SaveCall& call, const std::string& path) {
  if (!call.is_async) return Checkpointer(call.handler).save(path, call.tree, call.save);
  AsyncCheckpointer checkpointer(call.handler);
  checkpointer.save(path, call.tree, call.save);
  checkpointer.close();
}

// Both fail. One says `text`, and none has waited in vain.
void expect_difference(const Errors& errors, const std::string& text) {
  ASSERT_EQ(errors.size(), 2U);
  std::string all;
  for (const auto& error : errors) {
    ASSERT_TRUE(error);
    all += error->message() + "\n";
  }
  EXPECT_THAT(all, HasSubstr(text));
  EXPECT_THAT(all, Not(HasSubstr("did not arrive")));
  EXPECT_THAT(all, Not(HasSubstr("ended before arriving")));
}

struct Difference {
  const char* name;
  std::function<void(SaveCall&)> change;
  const char* error = "";  // "": the processes save all the same
};

constexpr const char* kOtherFormat = "the processes do not save in the same way: process 1 makes";
constexpr const char* kOtherCheckpoint = "the processes do not save the same checkpoint: process 1";
constexpr const char* kOtherArray = "w: process 1 saves it";

void set_array_options(SaveCall& call, const ArrayHandler::Options& options) {
  call.handler.type_handler_registry = with_array_options(options);
}

const std::vector<Difference>& differences() {
  static const std::vector<Difference> all = {
      {"none", [](SaveCall&) {}},
      {"use_ocdbt", [](SaveCall& c) { c.handler.use_ocdbt = !c.handler.use_ocdbt; }, kOtherFormat},
      {"use_zarr3", [](SaveCall& c) { c.handler.use_zarr3 = !c.handler.use_zarr3; }, kOtherFormat},
      {"chunk_bytes", [](SaveCall& c) { c.handler.chunk_bytes = 4096; }, kOtherFormat},
      {"durability", [](SaveCall& c) { c.handler.durability = Durability::kUnsynced; },
       kOtherFormat},
      {"use_compression", [](SaveCall& c) { c.handler.use_compression = false; }, kOtherArray},
      {"compression", [](SaveCall& c) { c.handler.compression = Compression::zstd(7); },
       kOtherArray},
      {"save_args",
       [](SaveCall& c) {
         c.tree.save_args =
             Tree(Tree::Dict{{"n", Tree()}, {"w", Tree(SaveArgs{.chunk_byte_size = 1024})}});
       },
       kOtherArray},
      {"use_replica_parallel",
       [](SaveCall& c) { set_array_options(c, {.use_replica_parallel = false}); }, kOtherArray},
      {"primary_host", [](SaveCall& c) { c.handler.multiprocessing_options.primary_host = 1; },
       "primary_host: process 1 has 1, process 0 has 0"},
      {"no primary_host",
       [](SaveCall& c) {
         c.handler.multiprocessing_options.primary_host = std::nullopt;
         set_array_options(c, {.replica_id = std::nullopt, .use_replica_parallel = false});
       },
       "primary_host: process 1 has none, process 0 has 0"},
      {"commit_protocol",
       [](SaveCall& c) { c.handler.commit_protocol = CommitProtocol::kCommitMarker; },
       kOtherCheckpoint},
      {"item", [](SaveCall& c) { c.save.item = "state"; }, kOtherCheckpoint},
      {"item without a name", [](SaveCall& c) { c.save.item = ""; },
       "process 1: '' cannot be the name of an item"},
      {"reuse_from", [](SaveCall& c) { c.tree.reuse_from = "/earlier"; },
       "process 1: reuse_from is set"},
      {"reuse_from with reuse",
       [](SaveCall& c) {
         c.handler.reuse = Reuse::kUnchanged;
         c.tree.reuse_from = "/earlier";
       },
       kOtherFormat},
      {"progress of the tree", [](SaveCall& c) { c.tree.progress = [](const auto&...) {}; },
       "process 1: PyTreeSaveArgs::progress is of saves by a handler alone"},
      {"a leaf",
       [](SaveCall& c) {
         c.tree.item = Tree(Tree::Dict{{"n", Tree(1.5)}});
       },
       "w: process 0 has it, process 1 does not"},
      {"an empty tree", [](SaveCall& c) { c.tree.item = Tree(Tree::Dict{}); },
       "process 1: found an empty item"},
      {"ocdbt_target_data_file_size", [](SaveCall& c) { c.tree.ocdbt_target_data_file_size = -1; },
       "process 1: ocdbt_target_data_file_size is -1 bytes"},
      // What only the primary, or each process for itself, makes of it.
      {"a smaller file size", [](SaveCall& c) { c.tree.ocdbt_target_data_file_size = 8192; }},
      {"async", [](SaveCall& c) { c.is_async = true; }},
      {"background_copy_bytes",
       [](SaveCall& c) {
         c.is_async = true;
         c.handler.background_copy_bytes = 0;
       }},
      {"is_prioritized_key_fn",
       [](SaveCall& c) { c.handler.is_prioritized_key_fn = [](const KeyPath&) { return false; }; }},
      {"reuse", [](SaveCall& c) { c.handler.reuse = Reuse::kUnchanged; }},
      {"memory", [](SaveCall& c) { c.handler.resources.memory = 1 << 20; }},
      {"threads", [](SaveCall& c) { c.handler.resources.threads = 2; }},
      {"save_concurrent_gb", [](SaveCall& c) { c.handler.save_concurrent_gb = 1; }},
      {"save_device_host_concurrent_bytes",
       [](SaveCall& c) { c.handler.save_device_host_concurrent_bytes = 1 << 20; }},
      {"support_rich_types",
       [](SaveCall& c) { c.handler.pytree_metadata_options.support_rich_types = true; }},
      {"enable_post_merge_validation",
       [](SaveCall& c) { c.handler.enable_post_merge_validation = false; }},
      {"save_timeout", [](SaveCall& c) { c.handler.save_timeout = std::chrono::minutes(5); }},
      {"timeout",
       [](SaveCall& c) { c.handler.multiprocessing_options.timeout = std::chrono::minutes(5); }},
      {"if_exists", [](SaveCall& c) { c.save.if_exists = IfExists::kReplace; }},
      {"custom_metadata", [](SaveCall& c) { c.save.custom_metadata = R"({"a": 1})"; }},
      {"custom_metadata of the tree", [](SaveCall& c) { c.tree.custom_metadata = R"({"a": 1})"; }},
      {"v1", [](SaveCall& c) { c.save.v1 = true; }},
      {"progress", [](SaveCall& c) { c.save.progress = [](const auto&...) {}; }},
  };
  return all;
}

struct Format {
  bool use_ocdbt = true;
  bool use_zarr3 = false;
};

class DifferentSaves : public ::testing::TestWithParam<Format> {};
INSTANTIATE_TEST_SUITE_P(Formats, DifferentSaves,
                         ::testing::Values(Format{true, false}, Format{true, true},
                                           Format{false, false}, Format{false, true}));

TEST_P(DifferentSaves, EndAtOnce) {
  for (const Difference& difference : differences()) {
    SCOPED_TRACE(difference.name);
    const TempDir dir = TempDir::in_memory();
    const auto errors = run_as_processes(2, [&](const Job& job) {
      SaveCall call = call_of(job);
      call.handler.use_ocdbt = GetParam().use_ocdbt;
      call.handler.use_zarr3 = GetParam().use_zarr3;
      if (job->process_index() == 1) difference.change(call);
      save(call, dir / "ckpt");
      job->barrier("saved", std::chrono::seconds(20));
    });
    if (*difference.error != '\0')
      expect_difference(errors, difference.error);
    else
      for (const auto& error : errors) EXPECT_FALSE(error) << error->message();
  }
}

// The writer of an item compares the formats itself: not every caller has done so.
TEST(DifferentItems, FormatsAreComparedInTheFirstStep) {
  const auto make_item = [] {
    orbax::SaveItem item;
    item.dealt = true;
    item.tree.leaves.push_back(orbax::leaf_metadata({Key{"w"}}, "np.ndarray"));
    item.arrays.push_back({.name = "w", .shape = {1 << 16}});
    item.fetch = [](std::span<ReadRequest> requests) {
      for (ReadRequest& request : requests) std::memset(request.out.data, 0, request.out.shape[0]);
    };
    return item;
  };
  for (const Format other : {Format{true, true}, Format{false, false}, Format{false, true}}) {
    const TempDir dir = TempDir::in_memory();
    const auto errors = run_as_processes(2, [&](const Job& job) {
      const Format format = job->process_index() == 1 ? other : Format();
      SaveOptions options;
      options.use_ocdbt = format.use_ocdbt;
      options.use_zarr3 = format.use_zarr3;
      orbax::ItemsSave items;
      items.trees.push_back({.item = make_item(), .options = options});
      (void)orbax::save_items(dir / "ckpt", std::move(items), options, together(job));
    });
    expect_difference(errors, kOtherFormat);
  }
}

// Items of other kinds take other steps.
TEST(DifferentItems, KindsAreCompared) {
  const TempDir dir = TempDir::in_memory();
  const auto save_one = [&](const CheckpointItem& one, const CheckpointItem& other) {
    return run_as_processes(2, [&](const Job& job) {
      PyTreeCheckpointHandlerOptions options;
      options.multiprocessing_options = together(job);
      const CheckpointItems items{{"a", job->process_index() == 0 ? one : other},
                                  {"b", PyTreeSaveArgs{Tree(Tree::Dict{{"n", Tree(1.5)}})}}};
      Checkpointer(options).save_items(dir / "ckpt", items);
      job->barrier("saved", std::chrono::seconds(20));
    });
  };
  const PyTreeSaveArgs tree{Tree(Tree::Dict{{"n", Tree(1.5)}})};
  expect_difference(save_one(tree, JsonItem{"{}"}), kOtherCheckpoint);
  expect_difference(save_one(JsonItem{"{}"}, tree), kOtherCheckpoint);
  expect_difference(save_one(JsonItem{"{}"}, JsonItem{"{"}), "process 1: the item 'a'");
}

// ---- managers ----

// Runs the work with a manager in each process; the second one's options may differ.
Errors with_managers(const std::string& root,
                     const std::function<void(CheckpointManagerOptions&)>& change,
                     const std::function<void(CheckpointManager&, std::size_t)>& work) {
  return run_as_processes(2, [&](const Job& job) {
    CheckpointManagerOptions options;
    options.handler.multiprocessing_options = together(job);
    options.handler.resources.threads = 1;
    if (job->process_index() == 1) change(options);
    CheckpointManager manager(root, options);
    work(manager, job->process_index());
    job->barrier("done", std::chrono::seconds(20));
  });
}

void save_two_steps(CheckpointManager& manager, std::size_t process) {
  for (const std::int64_t step : {1, 2}) manager.save(step, PyTreeSaveArgs{tree_of(process)});
  manager.wait_until_finished();
  manager.remove(1);
  manager.close();
}

TEST(DifferentManagers, EndAtOnce) {
  struct ManagerDifference {
    const char* name;
    std::function<void(CheckpointManagerOptions&)> change;
    const char* error = "";
  };
  const std::vector<ManagerDifference> all = {
      {"none", [](auto&) {}},
      {"read_only", [](auto& o) { o.read_only = true; },
       "read_only: process 1 has true, process 0 has false"},
      {"primary_host", [](auto& o) { o.handler.multiprocessing_options.primary_host = 1; },
       "primary_host: process 1 has 1, process 0 has 0"},
      {"reuse", [](auto& o) { o.handler.reuse = Reuse::kUnchanged; }, kOtherFormat},
      {"use_zarr3", [](auto& o) { o.handler.use_zarr3 = true; }, kOtherFormat},
      {"step_name_format", [](auto& o) { o.step_name_format = StepNameFormat("step", 8); },
       kOtherCheckpoint},
      {"enable_async_checkpointing", [](auto& o) { o.enable_async_checkpointing = false; }},
      {"enable_background_delete", [](auto& o) { o.enable_background_delete = true; }},
      {"max_to_keep", [](auto& o) { o.max_to_keep = 1; }},
      {"save_interval_steps", [](auto& o) { o.save_interval_steps = 100; }},
      {"create", [](auto& o) { o.create = false; }},
      {"root_metadata", [](auto& o) { o.root_metadata = R"({"a": 1})"; }},
  };
  for (const ManagerDifference& difference : all) {
    SCOPED_TRACE(difference.name);
    const TempDir dir = TempDir::in_memory();
    const auto errors = with_managers(dir / "run", difference.change, save_two_steps);
    if (*difference.error != '\0')
      expect_difference(errors, difference.error);
    else
      for (const auto& error : errors) EXPECT_FALSE(error) << error->message();
  }
}

TEST(DifferentManagers, OneIsClosed) {
  const TempDir dir = TempDir::in_memory();
  expect_difference(with_managers(
                        dir / "run", [](auto&) {},
                        [](CheckpointManager& manager, std::size_t process) {
                          if (process == 1) manager.close();
                          manager.save(1, PyTreeSaveArgs{tree_of(process)});
                        }),
                    "process 1: the manager is closed");
}

TEST(DifferentManagers, OneHasNoSuchStepToRemove) {
  const TempDir dir = TempDir::in_memory();
  expect_difference(with_managers(
                        dir / "run", [](auto&) {},
                        [](CheckpointManager& manager, std::size_t process) {
                          manager.save(1, PyTreeSaveArgs{tree_of(process)});
                          manager.wait_until_finished();
                          manager.remove(process == 1 ? 7 : 1);
                        }),
                    "process 1: ");
}

}  // namespace
}  // namespace cairn
