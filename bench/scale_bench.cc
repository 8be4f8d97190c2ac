// scale_bench.cc -- many processes and many parameters at once. The threads of one process act as
// the processes of a job with one device each, and save a tree of sharded arrays together. Then one
// of them restores it.
//
//   scale_bench PROCESSES PARAMETERS ELEMENTS FOLDER     (PROCESSES: a multiple of 8)
//
// Four of five parameters have 1 to ELEMENTS numbers on every device; every process writes a piece
// of each. The others are the same on all devices; one process writes each of them. The program
// prints one line of JSON:
//   - the cost of each step, for all processes together, in seconds of CPU time: "prepare"
//     (pieces), "plan" (chunks, and the plan that all processes agree on), "write", and "merge"
//     (the work of the primary process at the end);
//   - the bytes that the merge read and wrote;
//   - the number of keys;
//   - the cost of a restore for a process that wants its own boxes ("restore_own"), and for one
//     that wants everything on 8 devices ("restore_all");
//   - the peak memory of the save, and the memory of the trees alone.
// A FOLDER in memory is best, because this program does not measure the disk.
#include <cairn/cairn.h>
#include <cairn/orbax/checkpointer.h>
#include <cairn/orbax/leaf_args.h>
#include <cairn/orbax/pytree_checkpoint_handler.h>
#include <cairn/orbax/sharding.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "process_memory.h"

namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kRestoredOn = 8;  // devices; they must divide the number of processes

double processor_seconds() {
  timespec now{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) / 1e9;
}

// The bytes that the process has read and written so far, except through mappings.
struct Io {
  std::uint64_t read = 0;
  std::uint64_t written = 0;
};
Io io_so_far() {
  std::ifstream file("/proc/self/io");
  std::string name;
  Io io;
  file >> name >> io.read >> name >> io.written;
  return io;
}

// For each barrier or other collective operation, the time at which the last process entered it. By
// then all processes have completed the work before it.
struct Arrivals {
  struct Last {
    double at = 0;
    Io io;
  };
  std::mutex mutex;
  std::map<std::string, Last, std::less<>> last;

  void come(std::string_view name) {
    const std::lock_guard lock(mutex);
    last[std::string(name)] = {processor_seconds(), io_so_far()};
  }
};

class Timed final : public cairn::Coordinator {
 public:
  Timed(std::unique_ptr<cairn::Coordinator> of, Arrivals& arrivals)
      : of_(std::move(of)), arrivals_(arrivals) {}
  [[nodiscard]] std::size_t process_index() const override { return of_->process_index(); }
  [[nodiscard]] std::size_t process_count() const override { return of_->process_count(); }
  void barrier(std::string_view name, Timeout timeout) override {
    arrivals_.come(name);
    of_->barrier(name, timeout);
  }
  cairn::Bytes broadcast(std::string_view name, cairn::ByteView value, std::size_t root,
                         Timeout timeout) override {
    arrivals_.come(name);
    return of_->broadcast(name, value, root, timeout);
  }
  std::vector<cairn::Bytes> all_gather(std::string_view name, cairn::ByteView value,
                                       Timeout timeout) override {
    arrivals_.come(name);
    return of_->all_gather(name, value, timeout);
  }

 private:
  std::unique_ptr<cairn::Coordinator> of_;
  Arrivals& arrivals_;
};

struct Scale {
  std::int64_t processes = 1;
  std::int64_t parameters = 1;
  std::int64_t elements = 1;
};

bool is_spread(std::int64_t parameter) { return parameter % 5 != 4; }
std::int64_t width(const Scale& scale, std::int64_t parameter) {
  return 1 + parameter % scale.elements;
}
cairn::PartitionSpec spec(std::int64_t parameter) {
  return is_spread(parameter) ? cairn::PartitionSpec{{"d"}} : cairn::PartitionSpec{};
}
std::string name(std::int64_t parameter) { return fmt::format("layer_{:05}", parameter); }

// The part of a parameter that the device of a process holds.
cairn::Box box_of(const Scale& scale, std::int64_t parameter, std::int64_t process) {
  const std::int64_t elements = width(scale, parameter);
  return is_spread(parameter) ? cairn::Box{{process, 0}, {1, elements}}
                              : cairn::Box::whole({elements});
}

// The arrays of `process`: each has only the shard of its own device, which holds the first
// elements of `values`.
cairn::Tree tree_of(const Scale& scale, std::int64_t process, const cairn::Mesh& mesh,
                    const std::vector<float>& values) {
  cairn::Tree::Dict tree;
  tree.reserve(static_cast<std::size_t>(scale.parameters));
  for (std::int64_t i = 0; i < scale.parameters; ++i) {
    const cairn::Box box = box_of(scale, i, process);
    cairn::ShardedArray array{
        .shape = is_spread(i) ? cairn::Shape{scale.processes, width(scale, i)} : box.shape,
        .dtype = cairn::DType::kFloat32,
        .sharding = cairn::NamedSharding{mesh, spec(i)}};
    const cairn::ArrayView view{.data = reinterpret_cast<const std::byte*>(values.data()),
                                .dtype = array.dtype,
                                .element_size = sizeof(float),
                                .shape = box.shape,
                                .strides = cairn::c_strides(box.shape, sizeof(float))};
    array.shards.push_back(
        {process, box, is_spread(i) ? 0 : process, cairn::HostMemory{view, nullptr}});
    tree.emplace_back(name(i), cairn::Tree(std::move(array)));
  }
  return cairn::Tree(std::move(tree));
}

cairn::PyTreeCheckpointHandlerOptions options_of(std::shared_ptr<cairn::Coordinator> process) {
  constexpr auto kLong = std::chrono::hours(1);
  cairn::PyTreeCheckpointHandlerOptions options;
  options.use_compression = false;
  options.multiprocessing_options = {
      .coordinator = std::move(process), .timeout = kLong, .write_timeout = kLong};
  options.resources.threads = 1;
  return options;
}

// Returns the memory that the trees occupy.
std::uint64_t save(const Scale& scale, const std::string& path, Arrivals& arrivals) {
  std::vector<float> values(static_cast<std::size_t>(scale.elements));
  std::mt19937 random(1);
  std::generate(values.begin(), values.end(), [&] { return static_cast<float>(random()); });
  const cairn::Mesh mesh = cairn::make_mesh({scale.processes}, {"d"});
  const std::uint64_t before = bench::rss();
  std::vector<cairn::Tree> trees;
  for (std::int64_t p = 0; p < scale.processes; ++p)
    trees.push_back(tree_of(scale, p, mesh, values));
  const std::uint64_t trees_rss = bench::rss() - before;
  std::vector<std::jthread> processes;
  for (auto& process : cairn::thread_coordinators(trees.size()))
    processes.emplace_back([&, timed = std::make_shared<Timed>(std::move(process), arrivals)] {
      cairn::Checkpointer(options_of(timed)).save(path, {.item = trees[timed->process_index()]});
    });
  return trees_rss;
}

// Returns the CPU time in seconds of a restore in which `wanted` gives the sharding of each
// parameter.
template <class Wanted>
double restore(const Scale& scale, const std::string& path, const Wanted& wanted) {
  cairn::Tree::Dict args;
  for (std::int64_t i = 0; i < scale.parameters; ++i) {
    cairn::ArrayRestoreArgs one;
    one.sharding = wanted(i);
    args.emplace_back(name(i), cairn::Tree(std::move(one)));
  }
  const double start = processor_seconds();
  const cairn::Tree back = cairn::Checkpointer(options_of(nullptr))
                               .restore(path, {.restore_args = cairn::Tree(std::move(args))});
  return processor_seconds() - start;
}

void run(const Scale& scale, const fs::path& folder) {
  const std::string path = (folder / "scale-bench").string();
  fs::remove_all(path);
  Arrivals arrivals;
  const std::uint64_t trees_rss = save(scale, path, arrivals);
  const std::uint64_t peak = bench::peak_rss();
  const double own = restore(scale, path, [&](std::int64_t i) {
    return cairn::ExplicitSharding{
        {{.device_id = 0, .box = box_of(scale, i, scale.processes / 2)}}};
  });
  const cairn::Mesh few = cairn::make_mesh({kRestoredOn}, {"d"});
  const double all = restore(scale, path, [&](std::int64_t i) {
    return cairn::NamedSharding{few, spec(i)};
  });
  const auto step = [&](std::string_view from, std::string_view to) {
    return arrivals.last.at(std::string(to)).at - arrivals.last.at(std::string(from)).at;
  };
  const Io merge_begins = arrivals.last.at("save: write").io;
  const Io merge_ends = arrivals.last.at("save: commit").io;
  const std::int64_t spread = scale.parameters - scale.parameters / 5;
  std::cout
      << fmt::format(
             R"({{"processes": {}, "parameters": {}, "keys": {}, "prepare": {:.2f}, "plan": {:.2f}, "write": {:.2f}, "merge": {:.2f}, )"
             R"("merge_read": {}, "merge_written": {}, "restore_own": {:.2f}, "restore_all": {:.2f}, "trees_rss": {}, "peak_rss": {}}})",
             scale.processes, scale.parameters,
             spread * scale.processes + scale.parameters / 5 + scale.parameters,
             step("save: temporary directory", "save: prepare"),
             step("save: prepare", "save: plan"), step("save: plan", "save: write"),
             step("save: write", "save: commit"), merge_ends.read - merge_begins.read,
             merge_ends.written - merge_begins.written, own, all, trees_rss, peak)
      << std::endl;
  fs::remove_all(path);
}

}  // namespace

int main(int argc, char** argv) {
  const auto number = [&](int argument) {
    return argc > argument ? std::atoll(argv[argument]) : 0;
  };
  const Scale scale{number(1), number(2), number(3)};
  if (argc != 5 || scale.processes < 1 || scale.processes % kRestoredOn != 0 ||
      scale.parameters < 1 || scale.elements < 1) {
    std::cerr << "usage: scale_bench PROCESSES PARAMETERS ELEMENTS FOLDER\n"
              << "PROCESSES is a multiple of " << kRestoredOn
              << ", the devices on which all is restored at the end\n";
    return 2;
  }
  try {
    run(scale, argv[4]);
  } catch (const std::exception& e) {
    std::cerr << e.what() << '\n';
    return 1;
  }
  return 0;
}
