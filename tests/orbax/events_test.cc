// events_test.cc -- the events of saves and restores that the real package does not report in the
// same way: each is sent once, when it should be, with all its attributes. test_observer compares
// the others.
#include <cairn/io/file.h>
#include <cairn/observer.h>
#include <cairn/orbax/checkpointer.h>
#include <gmock/gmock.h>

#include <filesystem>
#include <limits>
#include <mutex>
#include <regex>
#include <string>
#include <vector>

#include "tests/orbax/single_replica.h"
#include "tests/support/handlers.h"
#include "tests/support/matchers.h"
#include "tests/support/processes.h"
#include "tests/support/temp_dir.h"

namespace cairn {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using testing::Replicated;
using testing::run_as_processes;
using testing::TempDir;

using Job = std::shared_ptr<Coordinator>;

// Collects the events whose names begin with one of the words, as text without durations.
class Events {
 public:
  explicit Events(std::vector<std::string> words) : words_(std::move(words)) {}

  [[nodiscard]] Observer observer() {
    return [this](const Event& event) {
      const std::string name(event.name);
      if (std::none_of(words_.begin(), words_.end(),
                       [&](const std::string& word) { return name.starts_with(word); }))
        return;
      static const std::regex kSeconds("seconds=[0-9.e+-]+");
      const std::lock_guard lock(mutex_);
      texts_.push_back(std::regex_replace(event_text(event), kSeconds, "seconds"));
    };
  }
  [[nodiscard]] std::vector<std::string> take() {
    const std::lock_guard lock(mutex_);
    return std::exchange(texts_, {});
  }

 private:
  std::vector<std::string> words_;
  std::mutex mutex_;
  std::vector<std::string> texts_;
};

// int32 0..7 on two devices, each with one half.
ShardedArray two_halves(const Sharding& sharding) {
  return ShardedArray::from_array(Array::from<std::int32_t>({0, 1, 2, 3, 4, 5, 6, 7}, {8}),
                                  sharding);
}
NamedSharding halves() { return {make_mesh({2}, {"x"}), {{"x"}}}; }
ExplicitSharding parts() { return {{{0, {{0}, {4}}}, {1, {{4}, {4}}}}}; }

// covers: type_handlers.ArrayHandler
TEST(Events, ASeparateFolderNeedsADatabase) {
  const TempDir dir;
  Events events({"save.replica_folder_ignored"});
  for (const bool folder : {false, true})
    for (const bool ocdbt : {false, true}) {
      PyTreeCheckpointHandlerOptions options;
      options.use_ocdbt = ocdbt;
      options.observer = events.observer();
      ArrayHandler::Options array;
      array.enable_replica_parallel_separate_folder = folder;
      options.type_handler_registry = with_array_options(array);
      const std::string path = dir / (std::string(folder ? "f" : "n") + (ocdbt ? "o" : "d"));
      Checkpointer(options).save(path, {.item = {{"a", two_halves(halves())}, {"b", 7}}});
      const std::vector<std::string> sent = events.take();
      if (folder && !ocdbt)
        EXPECT_THAT(sent, ElementsAre("warning save.replica_folder_ignored"));
      else
        EXPECT_THAT(sent, IsEmpty()) << path;
    }
}

// covers: type_handlers.ArrayHandler
TEST(Events, ShardingsWithoutJsonAreNamed) {
  const TempDir dir;
  Events events({"save.sharding_not_stored"});
  PyTreeCheckpointHandlerOptions options;
  options.observer = events.observer();
  const Tree tree{{"kept", two_halves(halves())},
                  {"lost", two_halves(parts())},
                  {"too", {{"lost", two_halves(parts())}}}};
  Checkpointer(options).save(dir / "a", {.item = tree});
  EXPECT_THAT(events.take(),
              ElementsAre(R"(warning save.sharding_not_stored leaf="lost" leaves=2)"));
  Checkpointer(options).save(dir / "b", {.item = {{"kept", two_halves(halves())}}});
  EXPECT_THAT(events.take(), IsEmpty());
  // shardings that nobody wants are not missed
  ArrayHandler::Options array;
  array.enable_write_sharding_file = false;
  options.type_handler_registry = with_array_options(array);
  Checkpointer(options).save(dir / "c", {.item = tree});
  EXPECT_THAT(events.take(), IsEmpty());
}

TEST(Events, ChunksThatAreSmallerThanThePiecesAreTold) {
  const TempDir dir;
  Events events({"save.chunk"});
  PyTreeCheckpointHandlerOptions options;
  options.use_zarr3 = true;
  options.observer = events.observer();
  const Tree tree{{"a", Array::from<std::int32_t>({0, 1, 2, 3, 4, 5, 6, 7}, {4, 2})}, {"b", 7}};
  const auto save = [&](const SaveArgs& args, const char* name) {
    PyTreeSaveArgs all{.item = tree};
    all.save_args = Tree(Tree::Dict{{"a", Tree(CustomLeaf::of(args))}, {"b", Tree()}});
    PyTreeCheckpointHandler(options).save(dir / name, all);
    return events.take();
  };
  EXPECT_THAT(save({}, "whole"), IsEmpty());
  EXPECT_THAT(save({.chunk_byte_size = 8}, "cut"),
              ElementsAre("info save.chunk_shape_chosen leaf=\"a\" shape=\"(4, 2)\" "
                          "write_shape=\"(4, 2)\" chunk_shape=\"(1, 2)\""));
  // Both sizes are asked for: the shapes count.
  EXPECT_THAT(save({.chunk_byte_size = 8, .write_chunk_shape = Shape{4, 2}}, "both"),
              ElementsAre("warning save.chunk_byte_size_ignored leaf=\"a\" leaves=1"));
}

// covers: events.record_event_duration_secs
TEST(Events, AMergeCountsDatabases) {
  const TempDir dir = TempDir::in_memory();
  const Replicated model(2);
  const std::string path = dir / "ckpt";
  std::vector<std::vector<std::string>> sent(4);
  const auto errors = run_as_processes(4, [&](const Job& job) {
    Events events({"save.merged"});
    PyTreeCheckpointHandlerOptions options = model.options(job, 0);
    options.observer = events.observer();
    Tree::Dict held;  // the parts of its devices
    for (const auto& [name, of] : model.arrays())
      held.emplace_back(name, CustomLeaf::of(ShardedArray::from_array(
                                  of.first, of.second, model.devices_of(job->process_index()))));
    Checkpointer(options).save(path, {.item = Tree(std::move(held))});
    sent[job->process_index()] = events.take();
  });
  for (const auto& error : errors) ASSERT_FALSE(error) << error->message();
  // the primary merges; the path is the one before the checkpoint gets its name
  ASSERT_EQ(sent[0].size(), 1U);
  EXPECT_THAT(sent[0][0], ::testing::MatchesRegex("info save.merged seconds path=\"" + path +
                                                  ".orbax-checkpoint-tmp[^\"]*\" databases=4"));
  for (std::size_t p = 1; p < 4; ++p) EXPECT_THAT(sent[p], IsEmpty()) << p;

  Events alone({"save.merged"});
  PyTreeCheckpointHandlerOptions options;
  options.observer = alone.observer();
  Checkpointer(options).save(dir / "alone", {.item = {{"b", 7}}});
  EXPECT_THAT(alone.take(), IsEmpty());
}

TEST(Events, TheDeviceLimitIsReported) {
  const TempDir dir;
  Events events({"save.device_limit"});
  MemoryReading reading{128, 40};
  double surge = 0;
  PyTreeCheckpointHandlerOptions options;
  options.observer = events.observer();
  options.save_device_host_concurrent_gb = AutoLimit{};
  options.memory_limit_options.max_transfer_concurrent_gb = 100;
  options.memory_limit_options.read_memory = [&] { return reading; };
  options.memory_limit_options.expected_surge_gib = [&] { return surge; };
  PyTreeCheckpointHandler handler(options);
  const auto save = [&](const std::string& name) {
    handler.save(dir / name, {.item = {{"b", 7}}});
    return events.take();
  };
  // 128 GiB, of which 40 are used and 10 was the limit: 41.2 GiB, as the real regulator says
  EXPECT_THAT(save("a"), ElementsAre("info save.device_limit_set bytes=44238163148 peak_gib=40.0 "
                                     "total_gib=128.0 expected_surge_gib=0.0"));
  surge = 2;
  const std::vector<std::string> lowered = save("b");
  ASSERT_EQ(lowered.size(), 1U);
  EXPECT_THAT(lowered[0],
              ::testing::MatchesRegex("info save.device_limit_set bytes=[0-9]+ peak_gib=40.0 "
                                      "total_gib=128.0 expected_surge_gib=2.0"));
  const std::string bytes = std::regex_replace(lowered[0], std::regex(".*(bytes=[0-9]+).*"), "$1");
  reading.total = -1;  // cannot be used: the limit stays
  EXPECT_THAT(save("c"), ElementsAre("warning save.device_limit_kept " + bytes +
                                     " peak_gib=40.0 total_gib=-1.0 expected_surge_gib=2.0"));
}

TEST(Events, ABroadcastIsReported) {
  const TempDir dir = TempDir::in_memory();
  const Replicated model(2);
  const std::string path = dir / "ckpt";
  Checkpointer().save(path, {.item = model.tree()});
  std::vector<std::vector<std::string>> sent(4);
  const auto errors = run_as_processes(4, [&](const Job& job) {
    Events events({"restore.primary", "restore.broadcast", "restore.single"});
    PyTreeCheckpointHandlerOptions options = model.options(job, 1);
    options.observer = events.observer();
    static_cast<void>(Checkpointer(options).restore(path, {.restore_args = model.args()}));
    sent[job->process_index()] = events.take();
  });
  for (const auto& error : errors) ASSERT_FALSE(error) << error->message();
  // 3000 bytes of a device at once: bias and long (2024) together, scale and w alone
  const std::vector<std::string> all = {
      R"(warning restore.broadcast_over_limit leaf="scale" bytes=4200 limit=3000)",
      R"(warning restore.broadcast_over_limit leaf="w" bytes=4096 limit=3000)",
      "info restore.broadcast seconds arrays=4 groups=3"};
  std::vector<std::string> primary = all;
  primary.insert(primary.begin(), "info restore.primary_replica_read seconds arrays=4");
  for (std::size_t p = 0; p < 4; ++p) EXPECT_EQ(sent[p], p < 2 ? all : primary) << p;
}

TEST(Events, DeprecatedArgumentsAreNamed) {
  const TempDir dir;
  const Replicated model(2);
  const std::string path = dir / "ckpt";
  Checkpointer().save(path, {.item = model.tree()});
  Events events({"restore.single_replica_sharding_deprecated"});
  PyTreeCheckpointHandlerOptions options;
  options.observer = events.observer();
  SingleReplicaArrayHandler::Options handler;
  handler.replica_axis_index = 1;
  auto registry = std::make_shared<TypeHandlerRegistry>(standard_type_handlers());
  registry->add(typeid(ShardedArray), std::make_shared<SingleReplicaArrayHandler>(handler),
                {nullptr, true});
  options.type_handler_registry = registry;
  const auto restore = [&](std::initializer_list<const char*> names) {
    Tree args = model.args();
    for (const char* name : names) {
      for (auto& [key, leaf] : std::get<Tree::Dict>(args.value())) {
        if (key != name) continue;
        auto given = *leaf.custom<SingleReplicaArrayRestoreArgs>();
        NamedSharding one = model.sharding(name);
        one.mesh = make_mesh({2, 1, 2}, one.mesh.axis_names);
        one.mesh.device_ids = {0, 1, 2, 3};
        given.single_replica_sharding = one;
        leaf = Tree(CustomLeaf::of(given));
      }
    }
    static_cast<void>(Checkpointer(options).restore(path, {.restore_args = args}));
    return events.take();
  };
  EXPECT_THAT(restore({}), IsEmpty());
  EXPECT_THAT(restore({"scale", "w"}),
              ElementsAre("warning restore.single_replica_sharding_deprecated leaf=\"scale\" "
                          "leaves=2"));
}

}  // namespace
}  // namespace cairn
