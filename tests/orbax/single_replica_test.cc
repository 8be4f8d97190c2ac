// single_replica_test.cc -- checkpoints that one replica's processes read for all: in every form of
// storage, while the others have no data to read; what fails in one before, beside and while arrays
// are read. The processes are threads here.
#include <cairn/io/file.h>
#include <cairn/orbax/checkpointer.h>
#include <gmock/gmock.h>

#include <filesystem>

#include "tests/orbax/single_replica.h"
#include "tests/support/matchers.h"
#include "tests/support/processes.h"
#include "tests/support/same_bytes.h"
#include "tests/support/temp_dir.h"

namespace cairn {
namespace {

using testing::expect_shards;
using testing::FailsWith;
using ::testing::HasSubstr;
using testing::Replicated;
using testing::run_as_processes;
using testing::same_array;
using testing::TempDir;

using Job = std::shared_ptr<Coordinator>;
using Errors = std::vector<std::optional<Error>>;

void expect_no_errors(const Errors& errors) {
  for (std::size_t p = 0; p < errors.size(); ++p)
    EXPECT_FALSE(errors[p]) << "process " << p << ": " << errors[p]->message();
}

struct Form {
  const char* name;
  bool use_ocdbt, use_zarr3;
};
void PrintTo(const Form& form, std::ostream* out) { *out << form.name; }
constexpr Form kForms[] = {{"OcdbtZarr2", true, false},
                           {"OcdbtZarr3", true, true},
                           {"FoldersZarr2", false, false},
                           {"FoldersZarr3", false, true}};

class SingleReplicaForms : public ::testing::TestWithParam<Form> {};
INSTANTIATE_TEST_SUITE_P(Forms, SingleReplicaForms, ::testing::ValuesIn(kForms),
                         [](const auto& of) { return of.param.name; });

// The checkpoint without what arrays consist of.
void copy_without_data(const std::string& from, const std::string& to) {
  testing::copy_tree(from, to);
  for (const auto& entry : std::filesystem::directory_iterator(from))
    if (entry.is_directory() && entry.path().filename() != "array_metadatas")
      std::filesystem::remove_all(to + "/" + entry.path().filename().string());
}

TEST_P(SingleReplicaForms, OnlyThePrimaryReplicaHasDataToRead) {
  const TempDir dir = TempDir::in_memory();
  // Replicas of two processes each, along the second axis; a process holds two devices.
  for (const std::size_t replicas : {2, 4}) {
    const Replicated model(replicas);
    PyTreeCheckpointHandlerOptions saving;
    saving.use_ocdbt = GetParam().use_ocdbt;
    saving.use_zarr3 = GetParam().use_zarr3;
    const std::string full = dir / ("full" + std::to_string(replicas)),
                      bare = dir / ("bare" + std::to_string(replicas));
    Checkpointer(saving).save(full, {.item = model.tree()});
    copy_without_data(full, bare);
    const std::size_t primary = replicas - 1;
    expect_no_errors(run_as_processes(2 * replicas, [&](const Job& job) {
      const bool reads = job->process_index() / 2 == primary;
      const Tree restored = Checkpointer(model.options(job, primary))
                                .restore(reads ? full : bare, {.restore_args = model.args()});
      expect_shards(restored, model, job->process_index());
    }));
    // What has no data cannot be read; and the data that the others got is that of the checkpoint.
    EXPECT_THAT([&] { static_cast<void>(Checkpointer().restore(bare)); },
                ::testing::Throws<Error>());
    EXPECT_TRUE(
        same_array(gather_shards(*Checkpointer().restore(full).find("w")->custom<ShardedArray>()),
                   model.array("w")));
  }
}

TEST(SingleReplicaRestore, TargetsSayWhatArgumentsDoNot) {
  const TempDir dir = TempDir::in_memory();
  const Replicated model(2);
  const Tree arrays = model.tree();
  Tree::Dict saved = std::get<Tree::Dict>(arrays.value());
  saved.emplace_back("host", testing::whole_numbers(DType::kInt16, {3, 4}));
  saved.emplace_back("name", std::string("a text"));
  saved.emplace_back("step", std::int64_t{12});
  Checkpointer().save(dir / "a", {.item = Tree(saved)});
  expect_no_errors(run_as_processes(4, [&](const Job& job) {
    Tree::Dict target, args;
    for (const auto& [name, of] : model.arrays()) {
      target.emplace_back(
          name, CustomLeaf::of(ShapeDtypeStruct{of.first.shape(), of.first.dtype(), std::nullopt}));
      SingleReplicaArrayRestoreArgs wanted;
      wanted.sharding = of.second;
      args.emplace_back(name, CustomLeaf::of(wanted));
    }
    for (const char* name : {"host", "name", "step"}) {
      target.emplace_back(name, std::int64_t{0});
      args.emplace_back(name, Tree());
    }
    const Tree restored =
        Checkpointer(model.options(job, 0))
            .restore(dir / "a", {.item = Tree(target), .restore_args = Tree(args)});
    expect_shards(restored, model, job->process_index());
    EXPECT_TRUE(
        same_array(*restored.find("host")->array(), testing::whole_numbers(DType::kInt16, {3, 4})));
    EXPECT_EQ(std::get<std::string>(restored.find("name")->value()), "a text");
  }));
}

TEST(SingleReplicaRestore, WithoutItEachRestoresTheShardsOfItsDevices) {
  const TempDir dir = TempDir::in_memory();
  const Replicated model(2);
  Checkpointer().save(dir / "a", {.item = model.tree()});
  for (std::size_t p = 0; p < 4; ++p) {
    PyTreeCheckpointHandlerOptions options;
    options.multiprocessing_options.local_devices = model.devices_of(p);
    expect_shards(Checkpointer(options).restore(dir / "a"), model, p);
  }
}

// ---- failures ----

struct RestoreFailure {
  const char* name;
  // What process 2 of four does otherwise, in `dir`, where "a" is a checkpoint.
  std::function<Tree(Checkpointer& checkpointer, const Replicated& model, const TempDir& dir)>
      restore;
  Code code;
  std::string says;
};
void PrintTo(const RestoreFailure& failure, std::ostream* out) { *out << failure.name; }

const RestoreFailure kRestoreFailures[] = {
    {"NoSuchCheckpoint",
     [](Checkpointer& checkpointer, const Replicated& model, const TempDir& dir) {
       return checkpointer.restore(dir / "b", {.restore_args = model.args()});
     },
     Code::kNotFound, "there is no such checkpoint"},
    {"UnfinishedCheckpoint",
     [](Checkpointer& checkpointer, const Replicated& model, const TempDir& dir) {
       std::filesystem::create_directory(dir / "a.orbax-checkpoint-tmp");
       return checkpointer.restore(dir / "a.orbax-checkpoint-tmp", {.restore_args = model.args()});
     },
     Code::kFailedPrecondition, "incomplete"},
    {"ArgumentsOfAnotherStructure",
     [](Checkpointer& checkpointer, const Replicated&, const TempDir& dir) {
       return checkpointer.restore(dir / "a", {.restore_args = Tree(Tree::Dict{{"x", Tree()}})});
     },
     Code::kInvalidArgument, "the structure of the arguments does not match"},
    {"TargetOfAnotherStructure",
     [](Checkpointer& checkpointer, const Replicated& model, const TempDir& dir) {
       return checkpointer.restore(
           dir / "a",
           {.item = Tree(Tree::Dict{{"x", Tree(std::int64_t{1})}}), .restore_args = model.args()});
     },
     Code::kInvalidArgument, ""},
    {"NothingOfTheArrays",
     [](Checkpointer& checkpointer, const Replicated&, const TempDir& dir) {
       const Tree host(Tree::Dict{{"host", Tree(std::int64_t{1})}});
       return checkpointer.restore(dir / "a", {.item = host, .partial_restore = true});
     },
     Code::kInvalidArgument,
     "process 2 restores nothing, process 0 restores leaves of type jax.Array"},
    {"AHostLeaf",
     [](Checkpointer& checkpointer, const Replicated& model, const TempDir& dir) {
       testing::copy_tree(dir / "a", dir / "damaged");
       std::filesystem::remove(dir / "damaged/_strings.json");
       return checkpointer.restore(dir / "damaged", {.restore_args = model.args()});
     },
     Code::kDataLoss, "_strings.json is missing"},
    {"ItsData",  // it is one of the two that read
     [](Checkpointer& checkpointer, const Replicated& model, const TempDir& dir) {
       testing::copy_tree(dir / "a", dir / "damaged");
       for (const auto& file : std::filesystem::recursive_directory_iterator(dir / "damaged/d"))
         if (file.is_regular_file())
           std::filesystem::resize_file(file.path(), file.file_size() / 2);
       return checkpointer.restore(dir / "damaged", {.restore_args = model.args()});
     },
     Code::kDataLoss, ""},
};

class FailingRestore : public ::testing::TestWithParam<RestoreFailure> {};
INSTANTIATE_TEST_SUITE_P(SingleReplica, FailingRestore, ::testing::ValuesIn(kRestoreFailures),
                         [](const auto& of) { return of.param.name; });

TEST_P(FailingRestore, FailsInAll) {
  const TempDir dir = TempDir::in_memory();
  const Replicated model(2, true);
  Checkpointer().save(dir / "a", {.item = model.tree()});
  const auto errors = run_as_processes(4, [&](const Job& job) {
    Checkpointer checkpointer(model.options(job, 1));
    if (job->process_index() == 2)
      static_cast<void>(GetParam().restore(checkpointer, model, dir));
    else
      static_cast<void>(checkpointer.restore(dir / "a", {.restore_args = model.args()}));
  });
  ASSERT_TRUE(errors[2]);
  EXPECT_EQ(errors[2]->code(), GetParam().code) << errors[2]->message();
  EXPECT_THAT(errors[2]->message(), HasSubstr(GetParam().says));
  const bool alike = errors[2]->message().starts_with("the processes do not");
  for (const std::size_t p : {0, 1, 3}) {
    ASSERT_TRUE(errors[p]) << "process " << p;
    EXPECT_EQ(errors[p]->code(), GetParam().code);
    EXPECT_EQ(errors[p]->message(), (alike ? "" : "process 2: ") + errors[2]->message());
  }
}

TEST(SingleReplicaRestore, OneThatDoesNotComeIsNamed) {
  const TempDir dir = TempDir::in_memory();
  const Replicated model(2);
  Checkpointer().save(dir / "a", {.item = model.tree()});
  const auto errors = run_as_processes(4, [&](const Job& job) {
    if (job->process_index() != 3)
      static_cast<void>(
          Checkpointer(model.options(job, 0)).restore(dir / "a", {.restore_args = model.args()}));
  });
  for (const std::size_t p : {0, 1, 2}) {
    ASSERT_TRUE(errors[p]);
    EXPECT_THAT(errors[p]->message(),
                HasSubstr("'restore: start': process 3 ended before arriving"));
  }
}

}  // namespace
}  // namespace cairn
