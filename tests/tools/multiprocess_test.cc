// Tools that several processes use together: what one process would have found and written.
#include <cairn/cairn.h>
#include <cairn/checkpoint.h>
#include <cairn/convert.h>
#include <cairn/diff.h>
#include <cairn/inspect.h>
#include <cairn/io/directory.h>
#include <cairn/io/file.h>
#include <cairn/io/temporary_name.h>
#include <cairn/orbax/open.h>
#include <cairn/orbax/sharding.h>
#include <cairn/storage/kvstore.h>
#include <cairn/tree.h>
#include <gmock/gmock.h>

#include <cstring>
#include <filesystem>
#include <random>

#include "tests/support/matchers.h"
#include "tests/support/processes.h"
#include "tests/support/random_bytes.h"
#include "tests/support/seed.h"
#include "tests/support/temp_dir.h"
#include "tests/tools/jobs.h"
#include "tests/tools/memory_checkpoint.h"

namespace cairn {
namespace {

// Without the time that the check took.
std::string text_of(VerifyReport report) {
  report.seconds = 0;
  return verify_json(report);
}

using testing::expect_all_well;
using testing::job_of;
using testing::run_as_processes;
using testing::TempDir;

// A tree of arrays of all sizes, one of them larger than all others together, numbers, texts and
// empty nodes.
class RandomTree {
 public:
  explicit RandomTree(std::uint32_t seed) : random_(seed) {}

  std::uint64_t below(std::uint64_t n) {
    return std::uniform_int_distribution<std::uint64_t>(0, n - 1)(random_);
  }
  Array array(DType dtype, const Shape& shape) {
    Array made = Array::allocate(dtype, shape);
    testing::fill_random({made.mutable_view().data, made.bytes().size()}, random_());
    return made;
  }
  Tree tree(bool with_texts) {
    Tree::Dict dict;
    const auto large = static_cast<std::int64_t>(1'500'000 + below(1'000'000));
    dict.emplace_back("large", array(DType::kInt32, {large / 1000, 1000}));
    const std::vector<DType> types = {DType::kUint8, DType::kInt16, DType::kInt32, DType::kInt64};
    const std::size_t arrays = 1 + below(12);
    for (std::size_t i = 0; i < arrays; ++i) {
      Shape shape(below(4));
      for (auto& extent : shape)
        extent = static_cast<std::int64_t>(below(5) == 0 ? below(2) : 1 + below(40));
      dict.emplace_back("a" + std::to_string(i), array(types[below(types.size())], shape));
    }
    if (with_texts) {
      dict.emplace_back("number", Tree(std::int64_t{42}));
      dict.emplace_back("text", Tree(std::string("text")));
      dict.emplace_back("nothing", Tree(EmptyNode::kNone));
    }
    return Tree(std::move(dict));
  }

 private:
  std::mt19937 random_;
};

class Multiprocess : public ::testing::TestWithParam<std::size_t> {
 protected:
  Multiprocess() : seed_(testing::seed()), random_(seed_) {}
  [[nodiscard]] std::string trace() const { return "seed " + std::to_string(seed_); }
  [[nodiscard]] std::string path(const std::string& name) const { return dir_.path() + "/" + name; }
  // An Orbax checkpoint of a random tree.
  std::string make_source(const std::string& name, bool with_texts) {
    SaveOptions options;
    options.durability = Durability::kUnsynced;
    options.use_zarr3 = random_.below(2) == 0;
    options.use_ocdbt = random_.below(3) != 0;
    if (random_.below(2) == 0) options.chunk_bytes = 100'000;
    save_orbax(path(name), random_.tree(with_texts), options);
    return path(name);
  }
  // Called by each process, which opens the source for itself.
  template <class F>
  std::vector<std::optional<Error>> together(F&& part) {
    return run_as_processes(GetParam(),
                            [&](const auto& coordinator) { part(job_of(coordinator)); });
  }
  [[nodiscard]] std::vector<std::string> names_in_folder() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(dir_.path()))
      names.push_back(entry.path().filename());
    std::sort(names.begin(), names.end());
    return names;
  }

  std::uint32_t seed_;
  RandomTree random_;
  TempDir dir_ = TempDir::in_memory();
};
INSTANTIATE_TEST_SUITE_P(Processes, Multiprocess, ::testing::Values(1, 2, 3, 8),
                         [](const auto& of) { return std::to_string(of.param); });

TEST_P(Multiprocess, FilesAreThoseOfOneProcess) {
  SCOPED_TRACE(trace());
  const std::string source = make_source("source", false);
  for (const std::string& name :
       std::vector<std::string>{"x.safetensors", "s.safetensors", "x.npz", "x.msgpack"}) {
    SCOPED_TRACE(name);
    ConvertOptions options;
    if (name == "s.safetensors") options.safetensors.max_shard_bytes = 1'000'000;
    if (random_.below(2) == 0) options.resources.memory = 200'000;
    const ConvertReport alone = convert(*open(source), path(name), options);
    std::vector<Bytes> wanted;
    for (const std::string& file : alone.files) wanted.push_back(read_file(file));
    options.if_exists = random_.below(2) == 0 ? IfExists::kReplace : IfExists::kFail;
    if (options.if_exists == IfExists::kFail)
      for (const std::string& file : alone.files) std::filesystem::remove(file);
    const auto errors = together([&](const MultiprocessingOptions& job) {
      ConvertOptions mine = options;
      mine.multiprocessing = job;
      EXPECT_EQ(convert_json(convert(*open(source), path(name), mine)), convert_json(alone));
    });
    expect_all_well(errors);
    for (std::size_t i = 0; i < wanted.size(); ++i)
      EXPECT_TRUE(read_file(alone.files[i]) == wanted[i]) << alone.files[i];
  }
  for (const std::string& name : names_in_folder()) EXPECT_FALSE(is_temporary_name(name)) << name;
}

TEST_P(Multiprocess, AStoreGetsTheFilesOfOneProcess) {
  SCOPED_TRACE(trace());
  const std::string source = make_source("source", false);
  const std::string url = "memory://multiprocess_" + std::to_string(GetParam()) + "/";
  for (const std::string& name : std::vector<std::string>{"x.safetensors", "s.safetensors", "x.npz",
                                                          "x.msgpack", "x.index", "orbax"}) {
    SCOPED_TRACE(name);
    ConvertOptions options;
    if (name == "orbax") options.format = TargetFormat::kOrbax;
    if (name == "s.safetensors") options.safetensors.max_shard_bytes = 1'000'000;
    const ConvertReport alone = convert(*open(source), path(name), options);
    for (const IfExists if_exists : {IfExists::kFail, IfExists::kReplace}) {
      options.if_exists = if_exists;
      const auto errors = together([&](const MultiprocessingOptions& job) {
        ConvertOptions mine = options;
        mine.multiprocessing = job;
        EXPECT_EQ(convert(*open(source), url + name, mine).files.size(), alone.files.size());
      });
      expect_all_well(errors);
    }
    const std::string& entry = alone.files.back();  // the index of a set
    const auto stored = open(url + entry.substr(path("").size()));
    EXPECT_TRUE(diff(*open(entry), *stored, {.strict = true}).equal());
    if (name == "orbax") continue;
    for (const std::string& file : alone.files) {
      const std::string key = file.substr(path("").size());
      EXPECT_EQ(open_store(url)->read(key, {}), read_file(file)) << key;
    }
    const auto refused = together([&](const MultiprocessingOptions& job) {
      ConvertOptions mine = options;
      mine.if_exists = IfExists::kFail;
      mine.multiprocessing = job;
      convert(*open(source), url + name, mine);
    });
    for (const auto& error : refused) {
      ASSERT_TRUE(error);
      EXPECT_EQ(error->code(), Code::kAlreadyExists);
    }
  }
}

TEST_P(Multiprocess, CheckpointsHoldTheSame) {
  SCOPED_TRACE(trace());
  const std::string source = make_source("source", true);
  for (const std::string& format :
       std::vector<std::string>{"orbax", "orbax-zarr3", "orbax-files"}) {
    SCOPED_TRACE(format);
    ConvertOptions options;
    options.format = parse_target_format(format);
    if (random_.below(2) == 0) options.resources.memory = 1'000'000;
    if (random_.below(3) == 0) options.orbax.item = "default";
    if (random_.below(2) == 0) options.orbax.chunk_bytes = 50'000;
    const auto errors = together([&](const MultiprocessingOptions& job) {
      ConvertOptions mine = options;
      mine.multiprocessing = job;
      EXPECT_EQ(convert(*open(source), path(format), mine).tensors, open(source)->tensors().size());
    });
    expect_all_well(errors);
    const auto written = open(path(format));
    const DiffReport same = diff(*open(source), *written, {.strict = true});
    EXPECT_TRUE(same.equal()) << diff_json(same);
    EXPECT_THAT(written->verify({}).findings, ::testing::IsEmpty());
  }
  EXPECT_THAT(names_in_folder(),
              ::testing::ElementsAre("orbax", "orbax-files", "orbax-zarr3", "source"));
}

TEST_P(Multiprocess, ReshardedCheckpointsAreCutAsOneProcessCutsThem) {
  SCOPED_TRACE(trace());
  save_orbax(path("source"), Tree(Tree::Dict{{"w", Tree(random_.array(DType::kInt32, {64, 100}))},
                                             {"b", Tree(random_.array(DType::kInt32, {48}))}}));
  ReshardOptions options;
  options.mesh = make_mesh({4, 2}, {"x", "y"});
  options.specs = {{"w", {{"x"}, {"y"}}}, {"b", {{"x", "y"}}}};
  options.orbax.compression = Compression::kReproducible;  // no measured rates in the report
  const std::string alone = reshard_json(reshard(*open(path("source")), path("new"), options));
  const std::string tensors = tensors_json(*open(path("new")), std::vector<std::size_t>{0, 1});
  std::filesystem::remove_all(path("new"));
  const auto errors = together([&](const MultiprocessingOptions& job) {
    ReshardOptions mine = options;
    mine.multiprocessing = job;
    EXPECT_EQ(reshard_json(reshard(*open(path("source")), path("new"), mine)), alone);
  });
  expect_all_well(errors);
  const auto written = open(path("new"));
  EXPECT_EQ(tensors_json(*written, std::vector<std::size_t>{0, 1}), tensors);
  EXPECT_TRUE(diff(*open(path("source")), *written).equal());
  EXPECT_THAT(written->verify({}).findings, ::testing::IsEmpty());
}

TEST_P(Multiprocess, ALargeChunkIsCutForProcesses) {
  // 3001 rows, a prime number, in one chunk.
  save_orbax(path("source"),
             Tree(Tree::Dict{{"w", Tree(random_.array(DType::kInt32, {3001, 1000}))}}));
  const auto errors = together([&](const MultiprocessingOptions& job) {
    ConvertOptions options;
    options.format = TargetFormat::kOrbax;
    options.multiprocessing = job;
    convert(*open(path("source")), path("new"), options);
  });
  expect_all_well(errors);
  const auto written = open(path("new"));
  EXPECT_EQ(written->tensors()[0].chunk_shape, (Shape{GetParam() == 1   ? 3001
                                                      : GetParam() == 2 ? 1500
                                                                        : 1048,
                                                      1000}));
  EXPECT_TRUE(diff(*open(path("source")), *written).equal());
}

TEST_P(Multiprocess, VerifyFindsWhatOneProcessFinds) {
  SCOPED_TRACE(trace());
  make_source("orbax", true);
  convert(*open(path("orbax")), path("x.npz"), {.exclude = {"number", "text", "nothing"}});
  convert(*open(path("orbax")), path("x.safetensors"), {.exclude = {"number", "text", "nothing"}});
  const auto check = [&](const std::string& name) {
    const std::string alone = text_of(verify(path(name)));
    const auto errors = together([&](const MultiprocessingOptions& job) {
      EXPECT_EQ(text_of(verify(path(name), {.multiprocessing = job})), alone) << name;
    });
    expect_all_well(errors);
    return alone;
  };
  for (const std::string& name : std::vector<std::string>{"orbax", "x.npz", "x.safetensors"})
    EXPECT_THAT(check(name), ::testing::HasSubstr("\"ok\": true"));
  // Some bytes somewhere in a file are other ones.
  std::vector<std::string> files = {path("x.npz")};
  for (const auto& entry : std::filesystem::recursive_directory_iterator(path("orbax")))
    if (entry.is_regular_file() && entry.file_size() > 0) files.push_back(entry.path());
  std::size_t damaged = 0;
  for (int round = 0; round < 12; ++round) {
    const std::string& file = round == 0 ? files.front() : files[random_.below(files.size())];
    Bytes bytes = read_file(file);
    const Bytes before = bytes;
    for (std::size_t i = 1; i <= 3; ++i) {
      // At first of the values, so that something is damaged whatever the seed.
      const std::size_t at = round == 0 ? i * bytes.size() / 4 : random_.below(bytes.size());
      bytes[at] ^= std::byte{1};
    }
    testing::put_file(file, bytes);
    const std::string name = std::filesystem::relative(file, dir_.path()).begin()->string();
    const auto alone = try_call([&] { return verify(path(name)).damaged(); });
    if (alone.ok()) {
      damaged += alone.value() ? 1 : 0;
      check(name);
    } else {  // it is not what it was any more, for nobody
      for (const auto& error : together([&](const MultiprocessingOptions& job) {
             verify(path(name), {.multiprocessing = job});
           })) {
        ASSERT_TRUE(error);
        EXPECT_EQ(error->message(), alone.error().message());
      }
    }
    testing::put_file(file, before);
  }
  EXPECT_GT(damaged, 0U);
}

TEST_P(Multiprocess, DiffFindsWhatOneProcessFinds) {
  SCOPED_TRACE(trace());
  Tree tree = random_.tree(true);
  save_orbax(path("a"), tree);
  for (auto& [key, leaf] : std::get<Tree::Dict>(tree.value())) {
    const Array* array = std::get_if<Array>(&leaf.value());
    if (array == nullptr || array->bytes().empty() || random_.below(2) == 0) continue;
    Array other = Array::allocate(array->dtype(), array->shape());
    std::byte* out = other.mutable_view().data;
    std::memcpy(out, array->bytes().data(), array->bytes().size());
    for (int i = 0; i < 5; ++i) out[random_.below(array->bytes().size())] ^= std::byte{4};
    leaf = Tree(other);
  }
  SaveOptions other_chunks;
  other_chunks.chunk_bytes = 70'000;
  save_orbax(path("b"), tree, other_chunks);
  const auto check = [&](const DiffOptions& options) {
    const std::string alone = diff_json(diff(*open(path("a")), *open(path("b")), options));
    const auto errors = together([&](const MultiprocessingOptions& job) {
      DiffOptions mine = options;
      mine.multiprocessing = job;
      EXPECT_EQ(diff_json(diff(*open(path("a")), *open(path("b")), mine)), alone);
    });
    expect_all_well(errors);
    return alone;
  };
  check({});
  check({.rtol = 0.5, .atol = 3, .resources = {.memory = 300'000}});
  // One chunk of the largest array cannot be read.
  for (const auto& entry : std::filesystem::recursive_directory_iterator(path("b"))) {
    if (!entry.is_regular_file() || entry.file_size() < 1'000'000) continue;
    Bytes bytes = read_file(entry.path());
    bytes[bytes.size() / 2] ^= std::byte{1};
    testing::put_file(entry.path(), bytes);
    break;
  }
  EXPECT_THAT(check({}), ::testing::HasSubstr("\"unreadable\": 1,"));
}

// Reads as another does, but one array breaks.
class Broken : public testing::MemoryCheckpoint {
 public:
  using testing::MemoryCheckpoint::read;
  void read(std::span<const ReadRequest> requests, const ProgressFn& progress) const override {
    if (broken) throw Error(Code::kDataLoss, "w: its bytes are damaged");
    testing::MemoryCheckpoint::read(requests, progress);
  }
  bool broken = false;
};

TEST_P(Multiprocess, AFailureInOneFailsAllAndLeavesNothing) {
  const Array large = testing::make_array(DType::kInt32, {10, 1000, 1000},
                                          // enough for every process to have a part
                                          std::vector<std::int32_t>(10'000'000, 7));
  const std::size_t last = GetParam() - 1;
  for (const std::string& name : std::vector<std::string>{"x.safetensors", "x.npz", "x.msgpack",
                                                          "orbax", "orbax-zarr3", "orbax-files"}) {
    SCOPED_TRACE(name);
    const auto errors = run_as_processes(GetParam(), [&](const auto& coordinator) {
      Broken source;
      source.add("w", large, "np.ndarray");
      source.broken = coordinator->process_index() == last;
      ConvertOptions options;
      if (name.starts_with("orbax")) options.format = parse_target_format(name);
      options.multiprocessing = job_of(coordinator);
      convert(source, path(name), options);
    });
    for (std::size_t p = 0; p < errors.size(); ++p) {
      ASSERT_TRUE(errors[p]) << p;
      EXPECT_EQ(errors[p]->code(), Code::kDataLoss);
      const std::string who = p == last ? "" : "process " + std::to_string(last) + ": ";
      EXPECT_EQ(errors[p]->message(), who + "w: its bytes are damaged");
    }
    EXPECT_THAT(names_in_folder(), ::testing::IsEmpty());
  }
}

TEST_P(Multiprocess, ATargetThatIsThereIsRefusedByAll) {
  const std::string source = make_source("source", false);
  testing::put_file(path("x.safetensors"), "old");
  const auto errors = together([&](const MultiprocessingOptions& job) {
    convert(*open(source), path("x.safetensors"), {.multiprocessing = job});
  });
  for (const auto& error : errors) {
    ASSERT_TRUE(error);
    EXPECT_EQ(error->code(), Code::kAlreadyExists);
  }
  EXPECT_THAT(names_in_folder(), ::testing::ElementsAre("source", "x.safetensors"));
}

// One cannot read what is damaged for another: each error in its place, and nobody waits.
TEST(MultiprocessTools, ProcessesThatVerifyDoNotPartOverTheirErrors) {
  TempDir dir = TempDir::in_memory();
  save_orbax(dir / "whole",
             Tree(Tree::Dict{{"w", Tree(testing::make_array(DType::kInt32, {1},
                                                            std::vector<std::int32_t>{1}))}}));
  testing::put_file(dir / "damaged.safetensors", std::string("\x05\0\0\0\0\0\0\0{\"a\":", 13));
  const auto errors = run_as_processes(3, [&](const auto& coordinator) {
    const bool sees_damage = coordinator->process_index() != 1;
    verify(dir / (sees_damage ? "damaged.safetensors" : "missing"),
           {.multiprocessing = job_of(coordinator)});
  });
  for (const auto& error : errors) {
    ASSERT_TRUE(error);
    EXPECT_EQ(error->code(), Code::kNotFound);
    EXPECT_THAT(error->message(), ::testing::HasSubstr("/missing"));
  }
  // Damage that one alone meets is what all report.
  for (const std::size_t who : {0, 2}) {
    const auto none = run_as_processes(3, [&](const auto& coordinator) {
      const bool sees_damage = coordinator->process_index() == who;
      const auto report = verify(dir / (sees_damage ? "damaged.safetensors" : "whole"),
                                 {.multiprocessing = job_of(coordinator)});
      ASSERT_EQ(report.findings.size(), 1U);
      EXPECT_TRUE(report.damaged());
      EXPECT_EQ(report.findings[0].message.starts_with("process 2: "), who == 2)
          << report.findings[0].message;
    });
    expect_all_well(none);
  }
}

// What cannot be opened or checked, and steps: all processes report what one would.
TEST(MultiprocessTools, ProcessesReportVerdictsAsOneProcessDoes) {
  TempDir dir = TempDir::in_memory();
  const std::string golden = std::string(CAIRN_GOLDEN_DIR) + "/orbax/orbax-0.12.8/";
  for (const char* name : {"composite", "manager", "tiny_files_zarr2"})
    testing::copy_tree(golden + name, dir / name);
  testing::put_file(dir / "composite/params/_METADATA", "{");
  std::filesystem::remove(dir / "composite/array/checkpoint/0");
  std::filesystem::remove_all(dir / "manager/2/default/d");
  testing::put_file(dir / "manager/1/_CHECKPOINT_METADATA",
                    R"({"item_handlers": null, "init_timestamp_nsecs": 1})");
  std::filesystem::remove(dir / "manager/1/commit_success.txt");
  Bytes metadata = read_file(dir / "tiny_files_zarr2/w/.zarray");
  std::string codec(as_text(metadata));
  codec.replace(codec.find("zstd"), 4, "mine");
  testing::put_file(dir / "tiny_files_zarr2/w/.zarray", codec);
  testing::put_file(dir / "x.safetensors.index.json",
                    R"({"weight_map": {"a": "gone.safetensors", "b": "lost.safetensors"}})");

  const auto check = [&](const std::string& name, Verdict verdict, std::size_t findings) {
    const VerifyReport alone = verify(dir / name);
    EXPECT_EQ(alone.verdict(), verdict) << name;
    EXPECT_GE(alone.findings.size(), findings) << name;
    expect_all_well(run_as_processes(3, [&](const auto& coordinator) {
      EXPECT_EQ(text_of(verify(dir / name, {.multiprocessing = job_of(coordinator)})),
                text_of(alone))
          << name;
    }));
  };
  check("composite", Verdict::kDamaged, 2);
  check("tiny_files_zarr2", Verdict::kNotChecked, 1);
  check("x.safetensors.index.json", Verdict::kDamaged, 2);
  const auto steps = verify_steps(dir / "manager");
  ASSERT_EQ(steps.size(), 3U);
  EXPECT_EQ(steps[0].verdict(), Verdict::kNotChecked);  // not finished
  EXPECT_EQ(steps[1].verdict(), Verdict::kDamaged);
  EXPECT_EQ(steps[2].verdict(), Verdict::kGood);
  expect_all_well(run_as_processes(3, [&](const auto& coordinator) {
    const auto together = verify_steps(dir / "manager", {.multiprocessing = job_of(coordinator)});
    ASSERT_EQ(together.size(), steps.size());
    EXPECT_EQ(together[0].verdict(), steps[0].verdict());
    for (const std::size_t i : {1, 2}) EXPECT_EQ(text_of(together[i]), text_of(steps[i]));
  }));
}

}  // namespace
}  // namespace cairn
