// multiprocess_tensorflow_test.cc -- TensorFlow checkpoints that several processes write, read,
// compare and check together, as threads and through files: every file is that of one process.
#include <cairn/cairn.h>
#include <cairn/io/file.h>
#include <cairn/orbax/open.h>
#include <cairn/tensorflow.h>
#include <gmock/gmock.h>

#include <filesystem>
#include <map>
#include <random>
#include <thread>

#include "tests/support/matchers.h"
#include "tests/support/processes.h"
#include "tests/support/random_bytes.h"
#include "tests/support/seed.h"
#include "tests/support/temp_dir.h"

namespace cairn {
namespace {

using testing::run_as_processes;
using testing::TempDir;

using Part = std::function<void(const MultiprocessingOptions& job)>;

void run_as_threads(std::size_t count, const Part& part) {
  for (const auto& error : run_as_processes(
           count, [&](const auto& coordinator) { part({.coordinator = coordinator}); }))
    EXPECT_FALSE(error) << error->message();
}

void run_through_files(std::size_t count, const Part& part) {
  const TempDir folder = TempDir::in_memory();
  std::vector<std::jthread> threads;
  for (std::size_t p = 0; p < count; ++p)
    threads.emplace_back([&, p] {
      try {
        part({.coordinator = files_coordinator(
                  {.directory = folder.path(), .process_index = p, .process_count = count})});
      } catch (const Error& e) {
        ADD_FAILURE() << "process " << p << ": " << e.message();
      }
    });
}

// Arrays of all sizes, texts and numbers.
Tree random_tree(std::mt19937& random) {
  const auto below = [&](std::uint64_t n) {
    return std::uniform_int_distribution<std::uint64_t>(0, n - 1)(random);
  };
  const auto array = [&](DType dtype, const Shape& shape) {
    Array made = Array::allocate(dtype, shape);
    testing::fill_random({made.mutable_view().data, made.bytes().size()}, random());
    return made;
  };
  Tree::List layers;
  const std::vector<DType> types = {DType::kUint8, DType::kInt16, DType::kInt32, DType::kInt64};
  for (std::size_t i = 0; i < 1 + below(10); ++i) {
    Shape shape(below(4));
    for (auto& extent : shape)
      extent = static_cast<std::int64_t>(below(5) == 0 ? below(2) : 1 + below(40));
    layers.emplace_back(array(types[below(types.size())], shape));
  }
  return Tree(Tree::Dict{
      {"large", Tree(array(DType::kInt32, {static_cast<std::int64_t>(500 + below(500)), 1000}))},
      {"layers", Tree(std::move(layers))},
      {"number", Tree(std::int64_t{42})},
      {"text", Tree(std::string(below(100'000), 't'))}});
}

std::map<std::string, Bytes> files_in(const std::string& folder) {
  std::map<std::string, Bytes> found;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    found[entry.path().filename().string()] = read_file(entry.path().string());
  return found;
}

struct Case {
  std::size_t processes;
  void (*run)(std::size_t count, const Part& part);
};

class MultiprocessTensorFlow : public ::testing::TestWithParam<Case> {
 protected:
  MultiprocessTensorFlow() : seed_(testing::seed()), random_(seed_) {}
  [[nodiscard]] std::string trace() const { return "seed " + std::to_string(seed_); }
  [[nodiscard]] ConvertOptions random_options() {
    ConvertOptions options{.format = TargetFormat::kTensorFlow};
    if (random_() % 2 == 0) options.tensorflow.max_shard_bytes = 100'000 + random_() % 1'000'000;
    if (random_() % 2 == 0) options.resources.memory = 200'000;
    return options;
  }
  static void together(const Part& part) { GetParam().run(GetParam().processes, part); }

  std::uint32_t seed_;
  std::mt19937 random_;
  TempDir dir_ = TempDir::in_memory();
};
INSTANTIATE_TEST_SUITE_P(Processes, MultiprocessTensorFlow,
                         ::testing::Values(Case{2, run_as_threads}, Case{3, run_as_threads},
                                           Case{8, run_as_threads}, Case{2, run_through_files},
                                           Case{3, run_through_files}),
                         [](const auto& of) {
                           return std::to_string(of.param.processes) +
                                  (of.param.run == run_as_threads ? "Threads" : "ThroughFiles");
                         });

TEST_P(MultiprocessTensorFlow, FilesAreThoseOfOneProcess) {
  SCOPED_TRACE(trace());
  save_orbax(dir_ / "source", random_tree(random_), {.durability = Durability::kUnsynced});
  const ConvertOptions options = random_options();
  convert(*open(dir_ / "source"), dir_ / "alone/ckpt", options);
  together([&](const MultiprocessingOptions& job) {
    ConvertOptions mine = options;
    mine.multiprocessing = job;
    convert(*open(dir_ / "source"), dir_ / "together/ckpt", mine);
    // Replaced by itself.
    mine.if_exists = IfExists::kReplace;
    convert(*open(dir_ / "source"), dir_ / "together/ckpt", mine);
  });
  EXPECT_EQ(files_in(dir_ / "together"), files_in(dir_ / "alone"));
}

TEST_P(MultiprocessTensorFlow, IsReadAsByOneProcess) {
  SCOPED_TRACE(trace());
  const std::string source = dir_ / "source/ckpt";
  write_tensorflow(source, random_tree(random_),
                   {.sharding_callback = std::make_shared<MaxShardSizePolicy>(300'000)});
  ConvertOptions anew = random_options();
  convert(*open(source), dir_ / "alone/ckpt", anew);
  convert(*open(source), dir_ / "alone/x.msgpack", {});
  together([&](const MultiprocessingOptions& job) {
    const auto opened = open(source);
    ConvertOptions mine = anew;
    mine.multiprocessing = job;
    convert(*opened, dir_ / "together/ckpt", mine);
    convert(*opened, dir_ / "together/x.msgpack", {.multiprocessing = job});
    convert(*opened, dir_ / "orbax", {.format = TargetFormat::kOrbax, .multiprocessing = job});
    EXPECT_THAT(verify(source, {.multiprocessing = job}).findings, ::testing::IsEmpty());
    EXPECT_TRUE(diff(*opened, *open(dir_ / "together/ckpt"), {.multiprocessing = job}).equal());
  });
  EXPECT_EQ(files_in(dir_ / "together"), files_in(dir_ / "alone"));
  const DiffReport same = diff(*open(source), *open(dir_ / "orbax"), {});
  EXPECT_TRUE(same.equal()) << diff_json(same);
}

}  // namespace
}  // namespace cairn
