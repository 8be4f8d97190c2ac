// Tools that several processes use together, but not in the same sense: all are told what differs,
// and nothing is written.
#include <cairn/cairn.h>
#include <cairn/io/file.h>
#include <cairn/msgpack.h>
#include <cairn/orbax/open.h>
#include <cairn/orbax/sharding.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <functional>

#include "tests/support/matchers.h"
#include "tests/support/processes.h"
#include "tests/support/temp_dir.h"
#include "tests/tools/jobs.h"
#include "tests/tools/memory_checkpoint.h"

namespace cairn {
namespace {

using testing::expect_all_well;
using testing::job_of;
using testing::run_as_processes;
using testing::TempDir;

std::vector<std::string> names_in(const TempDir& dir) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(dir.path()))
    names.push_back(entry.path().filename());
  std::sort(names.begin(), names.end());
  return names;
}

constexpr std::size_t kOdd = 2;  // the process that means something else

// What becomes of three processes, of which the one numbered kOdd is told so.
void expect_refused(
    Code code, const std::string& message,
    const std::function<void(bool is_odd, const MultiprocessingOptions& job)>& use) {
  const auto errors = run_as_processes(3, [&](const auto& coordinator) {
    use(coordinator->process_index() == kOdd, job_of(coordinator));
  });
  for (const auto& error : errors) {
    ASSERT_TRUE(error) << message;
    EXPECT_EQ(error->code(), code) << error->message();
    EXPECT_THAT(error->message(), ::testing::StartsWith(message));
    EXPECT_EQ(error->message(), errors[0]->message());
  }
}

Tree two_arrays(float value = 1) {
  return Tree(Tree::Dict{{"b", Tree(testing::make_array<float>(DType::kFloat32, {2}, {value, 2}))},
                         {"w", Tree(testing::make_array<float>(DType::kFloat32, {2}, {3, 4}))}});
}

// Else what each finds would be put together, or one file made of both.
TEST(Agree, ProcessesThatOpenOtherStepsAreTold) {
  TempDir dir = TempDir::in_memory();
  for (const std::string step : {"/steps/1", "/steps/2"})
    save_orbax(dir.path() + step, two_arrays());
  const auto step_of = [](bool is_odd) { return OpenOptions{.step = is_odd ? 2 : 1}; };
  const Code code = Code::kFailedPrecondition;
  expect_refused(
      code, "the step: process 2 sees 2, process 0 sees 1; all processes must see the same files",
      [&](bool is_odd, const MultiprocessingOptions& job) {
        verify(dir / "steps", {.open = step_of(is_odd), .multiprocessing = job});
      });
  expect_refused(code, "the step: process 2 sees 2",
                 [&](bool is_odd, const MultiprocessingOptions& job) {
                   convert(*open(dir / "steps", step_of(is_odd)), dir / "x.safetensors",
                           {.multiprocessing = job});
                 });
  expect_refused(code, "B: the step: process 2 sees 2",
                 [&](bool is_odd, const MultiprocessingOptions& job) {
                   const auto one = open(dir / "steps", {.step = 1});
                   diff(*one, *open(dir / "steps", step_of(is_odd)), {.multiprocessing = job});
                 });
  expect_refused(code, "the step: process 2 sees 2",
                 [&](bool is_odd, const MultiprocessingOptions& job) {
                   reshard(*open(dir / "steps", step_of(is_odd)), dir / "new",
                           {.orbax = {.chunk_bytes = 4}, .multiprocessing = job});
                 });
  EXPECT_FALSE(file_exists(dir / "x.safetensors"));
  EXPECT_FALSE(file_exists(dir / "new"));
}

template <class Options>
using Change = std::pair<std::string, std::function<void(Options&)>>;

TEST(Agree, ProcessesThatConvertOtherwiseAreTold) {
  TempDir dir = TempDir::in_memory();
  save_orbax(dir / "source", two_arrays());
  using C = ConvertOptions;
  const std::vector<std::pair<std::string, std::vector<Change<C>>>> all = {
      {"safetensors",
       {{"include", [](C& o) { o.include = {"w"}; }},
        {"exclude", [](C& o) { o.exclude = {"w"}; }},
        {"rename",
         [](C& o) {
           o.rename = {{"w", "v"}};
         }},
        {"dtype", [](C& o) { o.dtype = DType::kFloat16; }},
        {"skip_unsupported", [](C& o) { o.skip_unsupported = true; }},
        {"replace", [](C& o) { o.if_exists = IfExists::kReplace; }},
        {"dry_run", [](C& o) { o.dry_run = true; }},
        {"max_shard_bytes", [](C& o) { o.safetensors.max_shard_bytes = 8; }},
        {"memory", [](C& o) { o.resources.memory = 1'000'000; }}}},
      {"msgpack", {{"msgpack_dialect", [](C& o) { o.msgpack.dialect = MsgpackDialect::kOrbax; }}}},
      {"tensorflow",
       {{"plain_names", [](C& o) { o.tensorflow.plain_names = true; }},
        {"name_latest", [](C& o) { o.tensorflow.name_latest = false; }},
        {"tensorflow.max_shard_bytes", [](C& o) { o.tensorflow.max_shard_bytes = 8; }}}},
      {"orbax",
       {{"format", [](C& o) { o.format = TargetFormat::kOrbaxZarr3; }},
        {"compression", [](C& o) { o.orbax.compression = Compression::kNone; }},
        {"chunk_bytes", [](C& o) { o.orbax.chunk_bytes = 4; }},
        {"target_file_bytes", [](C& o) { o.orbax.target_file_bytes = 1000; }},
        {"item", [](C& o) { o.orbax.item = "default"; }}}}};
  for (const auto& of_format : all)
    for (const auto& change : of_format.second)
      expect_refused(Code::kInvalidArgument, change.first + ": process 2 has ",
                     [&](bool is_odd, const MultiprocessingOptions& job) {
                       C options;
                       options.format = parse_target_format(of_format.first);
                       options.multiprocessing = job;
                       if (is_odd) change.second(options);
                       convert(*open(dir / "source"), dir / "target", options);
                     });
  expect_refused(Code::kInvalidArgument, "the target: process 2 has ",
                 [&](bool is_odd, const MultiprocessingOptions& job) {
                   convert(*open(dir / "source"), dir / (is_odd ? "a.npz" : "b.npz"),
                           {.multiprocessing = job});
                 });
  EXPECT_EQ(names_in(dir), std::vector<std::string>{"source"});
}

TEST(Agree, ProcessesThatReshardOtherwiseAreTold) {
  TempDir dir = TempDir::in_memory();
  save_orbax(dir / "source", two_arrays());
  using R = ReshardOptions;
  const std::vector<Change<R>> changes = {
      {"mesh",
       [](R& o) {
         o.mesh = make_mesh({2, 1}, {"x", "y"});
       }},
      {"spec of 'w'",
       [](R& o) {
         o.specs = {{"w", {}}};
       }},
      {"chunk_bytes", [](R& o) { o.orbax.chunk_bytes = 4; }},
      {"format", [](R& o) { o.format = TargetFormat::kOrbaxFiles; }},
      {"compression", [](R& o) { o.orbax.compression = Compression::zstd(3); }},
      {"target_file_bytes", [](R& o) { o.orbax.target_file_bytes = 1000; }},
      {"item", [](R& o) { o.orbax.item = "default"; }},
      {"replace", [](R& o) { o.if_exists = IfExists::kReplace; }},
      {"dry_run", [](R& o) { o.dry_run = true; }}};
  for (const auto& change : changes)
    expect_refused(Code::kInvalidArgument, change.first + ": process 2 has ",
                   [&](bool is_odd, const MultiprocessingOptions& job) {
                     R options;
                     options.mesh = make_mesh({2}, {"x"});
                     options.specs = {{"w", {{"x"}}}};
                     options.multiprocessing = job;
                     if (is_odd) change.second(options);
                     reshard(*open(dir / "source"), dir / "target", options);
                   });
  expect_refused(Code::kInvalidArgument, "the target: process 2 has ",
                 [&](bool is_odd, const MultiprocessingOptions& job) {
                   reshard(*open(dir / "source"), dir / (is_odd ? "a" : "b"),
                           {.orbax = {.chunk_bytes = 4}, .multiprocessing = job});
                 });
  EXPECT_EQ(names_in(dir), std::vector<std::string>{"source"});
}

TEST(Agree, ProcessesThatCompareOtherwiseAreTold) {
  TempDir dir = TempDir::in_memory();
  save_orbax(dir / "source", two_arrays());
  using D = DiffOptions;
  const std::vector<Change<D>> changes = {{"include", [](D& o) { o.include = {"w"}; }},
                                          {"exclude", [](D& o) { o.exclude = {"w"}; }},
                                          {"rtol", [](D& o) { o.rtol = 0.5; }},
                                          {"atol", [](D& o) { o.atol = 0.5; }},
                                          {"ignore_dtype", [](D& o) { o.ignore_dtype = true; }},
                                          {"strict", [](D& o) { o.strict = true; }}};
  for (const auto& change : changes)
    expect_refused(Code::kInvalidArgument, change.first + ": process 2 has ",
                   [&](bool is_odd, const MultiprocessingOptions& job) {
                     D options{.multiprocessing = job};
                     if (is_odd) change.second(options);
                     diff(*open(dir / "source"), *open(dir / "source"), options);
                   });
}

// Each host reads the rules from its own file.
TEST(Agree, ProcessesThatTransformOtherwiseAreTold) {
  TempDir dir = TempDir::in_memory();
  save_orbax(dir / "source", two_arrays());
  const auto with = [&](const std::string& rules, const MultiprocessingOptions& job) {
    convert(*transform_checkpoint(open(dir / "source"), rules).checkpoint, dir / "x.npz",
            {.multiprocessing = job});
  };
  // The same leaves come out of both, which are each the other's.
  const std::string exchanged =
      R"({"rules": [{"rename": "b", "to": "c"}, {"rename": "w", "to": "b"}, {"rename": "c", "to": "w"}]})";
  expect_refused(Code::kFailedPrecondition, "the rules that transform it: process 2 sees ",
                 [&](bool is_odd, const MultiprocessingOptions& job) {
                   with(is_odd ? R"({"rules": [{"keep": "b"}]})" : exchanged, job);
                 });
  EXPECT_FALSE(file_exists(dir / "x.npz"));
  expect_all_well(
      run_as_processes(3, [&](const auto& coordinator) { with(exchanged, job_of(coordinator)); }));
}

// As if it had been replaced after others had opened it, by one of the same leaves.
TEST(Agree, ProcessesThatOpenOtherFilesOfTheSameLeavesAreTold) {
  TempDir dir = TempDir::in_memory();
  for (const std::string folder : {"old", "new"}) std::filesystem::create_directory(dir / folder);
  testing::MemoryCheckpoint before, after;
  for (auto* source : {&before, &after})
    source->add(
        "w", testing::make_array<float>(DType::kFloat32, {2}, {source == &after ? 1.0F : 2.0F, 3}),
        "np.ndarray");
  // Whether it is told by checksums, whatever the time of the files; else by the time.
  const std::vector<std::pair<std::string, bool>> names = {
      {"x.safetensors", false}, {"x.npz", true}, {"x.msgpack", false}, {"x.index", true}};
  for (const auto& [name, has_checksums] : names) {
    SCOPED_TRACE(name);
    const auto file_in = [&, &file = name](const std::string& folder) {
      return dir.path() + "/" + folder + "/" + file;
    };
    convert(before, file_in("old"), {});
    convert(after, file_in("new"), {});
    std::filesystem::remove_all(dir / "copy");
    std::filesystem::copy(dir / "old", dir / "copy");
    const auto time = std::filesystem::last_write_time(file_in("old"));
    std::filesystem::last_write_time(file_in("new"),
                                     has_checksums ? time : time + std::chrono::nanoseconds(1));
    std::filesystem::last_write_time(file_in("copy"),
                                     has_checksums ? time + std::chrono::seconds(1) : time);
    const auto use = [&](const std::string& other, bool is_odd, const MultiprocessingOptions& job) {
      const std::string path = file_in(is_odd ? other : "old");
      verify(path, {.multiprocessing = job});
      convert(*open(path), dir / "x.npz",
              {.if_exists = IfExists::kReplace, .multiprocessing = job});
      return diff(*open(path), *open(path), {.multiprocessing = job});
    };
    expect_refused(
        Code::kFailedPrecondition, (has_checksums ? "the checksums" : name) + ": process 2 sees ",
        [&](bool is_odd, const MultiprocessingOptions& job) { use("new", is_odd, job); });
    expect_all_well(run_as_processes(3, [&](const auto& coordinator) {
      use("copy", coordinator->process_index() == kOdd, job_of(coordinator));
    }));
  }
}

TEST(Agree, ProcessesThatSeeOtherLeavesAreTold) {
  TempDir dir = TempDir::in_memory();
  const auto errors = run_as_processes(3, [&](const auto& coordinator) {
    testing::MemoryCheckpoint source;
    source.add("w",
               testing::make_array<float>(DType::kFloat32,
                                          {coordinator->process_index() == 1 ? 3 : 2}, {}),
               "np.ndarray");
    convert(source, dir / "x.safetensors", {.multiprocessing = job_of(coordinator)});
  });
  for (const auto& error : errors) {
    ASSERT_TRUE(error);
    EXPECT_EQ(error->code(), Code::kFailedPrecondition);
    EXPECT_THAT(
        error->message(),
        ::testing::HasSubstr("w: process 1 sees np.ndarray float32(3,) at ['w'], 12 bytes"));
  }
}

}  // namespace
}  // namespace cairn
