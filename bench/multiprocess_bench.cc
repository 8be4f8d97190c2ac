// multiprocess_bench.cc -- times one save or one restore by several processes together, from the
// moment all are ready until the last is done. compare.py alternates it with its peers.
//
//   multiprocess_bench save PROCESSES DATA TARGET
//   multiprocess_bench restore PROCESSES CHECKPOINT
//
// Every process has one device, and that device's rows of all arrays in DATA (a checkpoint of any
// format). The processes coordinate through files. A single process does the same with all rows.
// The program prints one line of JSON: {"seconds", "bytes", "peak_rss"}. Bytes and memory are
// totals over all processes.
#include <cairn/cairn.h>
#include <cairn/orbax/checkpointer.h>
#include <cairn/orbax/leaf_args.h>
#include <cairn/orbax/pytree_checkpoint_handler.h>
#include <cairn/orbax/sharding.h>
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "process_memory.h"

namespace {

namespace fs = std::filesystem;

// All processes read the same clock.
double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// The figures that a process reports to its parent.
struct Done {
  double start = 0;
  double end = 0;
  std::uint64_t bytes = 0;
  std::uint64_t peak = 0;
};

struct Process {
  std::size_t index = 0;
  std::size_t count = 1;
  std::shared_ptr<cairn::Coordinator> job;  // null: the process runs alone
};

cairn::PyTreeCheckpointHandlerOptions options_of(const Process& process) {
  cairn::PyTreeCheckpointHandlerOptions options;
  options.multiprocessing_options.coordinator = process.job;
  options.multiprocessing_options.local_devices =
      std::vector<std::int64_t>{static_cast<std::int64_t>(process.index)};
  return options;
}

cairn::NamedSharding rows(const Process& process) {
  return {cairn::make_mesh({static_cast<std::int64_t>(process.count)}, {"d"}), {{"d"}}};
}

void wait_for_all(const Process& process) {
  if (process.job) process.job->barrier("bench", cairn::Coordinator::kDefaultTimeout);
}

// Returns this process's rows of every array.
cairn::Tree tree_of(const std::string& data, const Process& process, std::uint64_t& bytes) {
  const auto source = cairn::open(data);
  cairn::Tree::Dict tree;
  for (const cairn::TensorInfo& info : source->tensors()) {
    cairn::ShardedArray array{.shape = info.shape, .dtype = info.dtype, .sharding = rows(process)};
    const cairn::DeviceBox held = cairn::device_boxes(array.sharding, info.shape)[process.index];
    const auto part =
        std::make_shared<cairn::Array>(cairn::Array::allocate(info.dtype, held.box.shape));
    source->read(info.name, held.box, part->mutable_view());
    bytes += part->bytes().size();
    array.shards.push_back(
        {held.device_id, held.box, held.replica, cairn::HostMemory{part->view(), part}});
    tree.emplace_back(info.name, cairn::Tree(std::move(array)));
  }
  return cairn::Tree(std::move(tree));
}

Done save(const Process& process, const std::string& data, const std::string& target) {
  Done done;
  const cairn::Tree tree = tree_of(data, process, done.bytes);
  cairn::Checkpointer checkpointer(options_of(process));
  wait_for_all(process);
  done.start = now();
  checkpointer.save(target, {.item = tree});
  done.end = now();
  return done;
}

Done restore(const Process& process, const std::string& path) {
  Done done;
  cairn::Tree::Dict args;
  const auto stored = cairn::open(path);
  for (const cairn::TensorInfo& info : stored->tensors()) {
    cairn::ArrayRestoreArgs wanted;
    wanted.sharding = rows(process);
    args.emplace_back(info.name, cairn::Tree(std::move(wanted)));
  }
  const cairn::PyTreeRestoreArgs restore_args{.item = {},
                                              .restore_args = cairn::Tree(std::move(args))};
  const cairn::Checkpointer checkpointer(options_of(process));
  wait_for_all(process);
  done.start = now();
  const cairn::Tree back = checkpointer.restore(path, restore_args);
  done.end = now();
  for (const auto& entry : cairn::flatten(back))
    for (const auto& shard : entry.value.custom<cairn::ShardedArray>()->shards)
      done.bytes += static_cast<std::uint64_t>(cairn::element_count(shard.box.shape)) *
                    cairn::dtype_size(entry.value.custom<cairn::ShardedArray>()->dtype);
  return done;
}

Done run(const Process& process, const std::vector<std::string>& words) {
  if (words.at(0) == "save") return save(process, words.at(2), words.at(3));
  if (words.at(0) == "restore") return restore(process, words.at(2));
  throw std::invalid_argument("unknown mode " + words.at(0));
}

// Starts a child that runs as one of the processes and writes its figures into the pipe.
pid_t start(std::size_t index, std::size_t count, const std::string& rendezvous,
            const std::vector<std::string>& words, int pipe) {
  const pid_t child = ::fork();
  if (child < 0) throw std::runtime_error("fork");
  if (child > 0) return child;
  int status = 1;
  try {
    Process process{.index = index, .count = count, .job = nullptr};
    if (count > 1)
      process.job = cairn::files_coordinator(
          {.directory = rendezvous, .process_index = index, .process_count = count});
    Done done = run(process, words);
    done.peak = bench::peak_rss();
    status = ::write(pipe, &done, sizeof(done)) == sizeof(done) ? 0 : 1;
  } catch (const std::exception& error) {
    fmt::print(stderr, "multiprocess_bench: process {}: {}\n", index, error.what());
  }
  std::_Exit(status);
}

Done run_together(const std::vector<std::string>& words) {
  const std::size_t count = std::stoull(words.at(1));
  std::string rendezvous = (fs::temp_directory_path() / "cairn-multiprocess-bench-XXXXXX").string();
  if (::mkdtemp(rendezvous.data()) == nullptr)
    throw std::runtime_error("cannot make " + rendezvous);
  int ends[2];
  if (::pipe(ends) != 0) throw std::runtime_error("pipe");
  std::vector<pid_t> children;
  for (std::size_t p = 0; p < count; ++p)
    children.push_back(start(p, count, rendezvous, words, ends[1]));
  ::close(ends[1]);
  Done all{.start = 1e300};
  Done one;
  std::size_t came = 0;
  for (; ::read(ends[0], &one, sizeof(one)) == sizeof(one); ++came) {
    all.start = std::min(all.start, one.start);
    all.end = std::max(all.end, one.end);
    all.bytes += one.bytes;
    all.peak += one.peak;
  }
  for (const pid_t child : children) ::waitpid(child, nullptr, 0);
  fs::remove_all(rendezvous);
  if (came != count) throw std::runtime_error("not all processes were done");
  return all;
}

}  // namespace

int main(int argc, char** argv) try {
  const Done done = run_together({argv + 1, argv + argc});
  fmt::print("{{\"seconds\": {:.6f}, \"bytes\": {}, \"peak_rss\": {}}}\n", done.end - done.start,
             done.bytes, done.peak);
  return 0;
} catch (const std::exception& error) {
  fmt::print(stderr, "multiprocess_bench: {}\n", error.what());
  return 1;
}
