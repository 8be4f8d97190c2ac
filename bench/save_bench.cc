// save_bench.cc -- times one save, or one floor (a lower bound on the time), inside a new process.
// compare.py alternates it with its peers.
//
//   save_bench MODE DATA TARGET [OPTION ...]
//
//   save          saves DATA (a checkpoint, read before the clock starts) with cairn::save.
//                 Options: auto, none, zstd (level 1), reproducible; zarr3; folders; unsynced;
//                 memory=BYTES; chunk=BYTES (the most that a stored chunk has)
//   async         starts to save DATA in the background, and times how long the caller waits.
//                 Options: none; lent (the caller does not change the arrays, so nothing is
//                 copied); again (times the second save of the data, which has the memory of the
//                 first one's copies)
//   save-step     saves DATA as the steps 1 to 4 of a CheckpointManager, each with other values in
//                 a hundredth of the elements, and times the saves of 2 to 4 (the median).
//                 Options: reuse (Reuse::kUnchanged), restart (a new manager for each step)
//   save-tensorflow  saves DATA as a TensorFlow checkpoint, TARGET/model
//   floor-direct  writes as many bytes as DATA has, with O_DIRECT from 8 threads, computes the
//                 crc32c of all of them, and syncs: the speed of the disk for a program that does
//                 nothing else
//   floor-memcpy  all cores copy as many bytes from touched memory to touched memory; TARGET is not
//                 used
//   floor-copy    the same to new memory, whose pages the system must first provide and clear
//
// DATA may be generated:BYTES, which means arrays of random bits of at most 256 MiB each, or
// generated:COUNTxBYTES, which means COUNT arrays of BYTES bytes each, in layers of ten. The
// program prints one line of JSON: {"seconds", "total_seconds", "bytes", "peak_rss", "beyond_data",
// "written"}. beyond_data is the memory that the save itself added. written is the size of the last
// step's files that no other step has; 0 for other modes.
#include <cairn/cairn.h>
#include <cairn/checkpoint_manager.h>
#include <cairn/orbax/checkpointer.h>
#include <cairn/orbax/handlers.h>
#include <cairn/orbax/pytree_checkpoint_handler.h>
#include <cairn/steps.h>
#include <cairn/tensorflow.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <isa-l/crc.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "process_memory.h"

namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr std::size_t kPiece = std::size_t{4} << 20U;
constexpr std::size_t kHuge = std::size_t{2} << 20U;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

struct Figures {
  double seconds = 0;
  double total_seconds = 0;  // until everything is written, if that is later
  std::uint64_t bytes = 0;
  std::uint64_t rss_before = 0;
  std::uint64_t written = 0;
};

// Runs f(i) for i in [0, n) on the given number of threads.
template <class F>
void on_threads(std::size_t threads, std::size_t n, F f) {
  std::atomic<std::size_t> next{0};
  std::vector<std::jthread> pool;
  for (std::size_t t = 0; t < threads; ++t)
    pool.emplace_back([&] {
      for (std::size_t i = next++; i < n; i = next++) f(i);
    });
}

// ---- the tree ----
void fill_random(std::byte* to, std::size_t size, std::uint64_t seed) {
  std::uint64_t state = seed * 0x9e3779b97f4a7c15U + 1;
  for (std::size_t at = 0; at + 8 <= size; at += 8) {
    state ^= state << 13U;
    state ^= state >> 7U;
    state ^= state << 17U;
    std::memcpy(to + at, &state, sizeof(state));
  }
}

cairn::Tree generated(std::uint64_t bytes) {
  constexpr std::uint64_t kMost = std::uint64_t{256} << 20U;
  cairn::Tree::Dict tree;
  for (std::uint64_t at = 0; at < bytes; at += kMost) {
    const std::uint64_t size = std::min(kMost, bytes - at);
    auto array =
        cairn::Array::allocate(cairn::DType::kFloat32, {static_cast<std::int64_t>(size / 4)});
    fill_random(array.mutable_view().data, size, at + 1);
    tree.emplace_back(fmt::format("w{:04}", tree.size()), cairn::Tree(std::move(array)));
  }
  return cairn::Tree(std::move(tree));
}

cairn::Tree generated_small(std::uint64_t count, std::uint64_t bytes) {
  constexpr std::uint64_t kInLayer = 10;
  cairn::Tree::Dict layers;
  for (std::uint64_t i = 0; i < count;) {
    cairn::Tree::Dict layer;
    for (std::uint64_t w = 0; w < kInLayer && i < count; ++w, ++i) {
      auto array =
          cairn::Array::allocate(cairn::DType::kFloat32, {static_cast<std::int64_t>(bytes / 4)});
      fill_random(array.mutable_view().data, array.bytes().size(), i + 1);
      layer.emplace_back(fmt::format("w{}", w), cairn::Tree(std::move(array)));
    }
    layers.emplace_back(fmt::format("layer_{:06}", layers.size()), cairn::Tree(std::move(layer)));
  }
  return cairn::Tree(std::move(layers));
}

cairn::Tree tree_of(const std::string& data) {
  constexpr std::string_view kGenerated = "generated:";
  if (!data.starts_with(kGenerated)) return cairn::load(data);
  const std::string what = data.substr(kGenerated.size());
  const auto cross = what.find('x');
  return cross == std::string::npos ? generated(std::stoull(what))
                                    : generated_small(std::stoull(what.substr(0, cross)),
                                                      std::stoull(what.substr(cross + 1)));
}

std::uint64_t tree_bytes(const cairn::Tree& tree) {
  std::uint64_t total = 0;
  for (const auto& entry : cairn::flatten(tree))
    if (const auto* array = entry.value.array()) total += array->bytes().size();
  return total;
}

// ---- Cairn ----
cairn::SaveOptions options_of(const std::vector<std::string>& words) {
  cairn::SaveOptions options;
  for (const std::string& word : words) {
    if (word == "none")
      options.compression = cairn::Compression::kNone;
    else if (word == "reproducible")
      options.compression = cairn::Compression::kReproducible;
    else if (word == "zstd")
      options.compression = cairn::Compression::zstd(1);
    else if (word == "zarr3")
      options.use_zarr3 = true;
    else if (word == "folders")
      options.use_ocdbt = false;
    else if (word == "unsynced")
      options.durability = cairn::Durability::kUnsynced;
    else if (word.starts_with("memory="))
      options.resources.memory = std::stoull(word.substr(7));
    else if (word.starts_with("chunk="))
      options.chunk_bytes = std::stoll(word.substr(6));
    else if (word != "auto")
      throw std::invalid_argument("unknown option " + word);
  }
  return options;
}

Figures save(const std::string& data, const std::string& target,
             const cairn::SaveOptions& options) {
  // Like the peers, saves a tiny tree first: the setup at first use is not timed.
  cairn::save(target + "-first", cairn::Tree(std::int64_t{1}), options);
  const cairn::Tree tree = tree_of(data);
  Figures figures{.seconds = 0, .bytes = tree_bytes(tree), .rss_before = bench::rss()};
  const auto start = Clock::now();
  cairn::save(target, tree, options);
  figures.seconds = seconds_since(start);
  fs::remove_all(target + "-first");
  return figures;
}

Figures save_async(const std::string& data, const std::string& target,
                   const std::vector<std::string>& words) {
  cairn::PyTreeCheckpointHandlerOptions options;
  bool again = false;
  for (const std::string& word : words) {
    if (word == "none")
      options.use_compression = false;
    else if (word == "again")
      again = true;
    else if (word == "lent")
      cairn::register_standard_handlers_with_options({.numpy = {.deepcopy_host_arrays = false}});
    else
      throw std::invalid_argument("unknown option " + word);
  }
  cairn::AsyncCheckpointer checkpointer(options);
  checkpointer.save(target + "-first", {.item = cairn::Tree(std::int64_t{1})});
  const cairn::PyTreeSaveArgs args{.item = tree_of(data)};
  checkpointer.wait_until_finished();
  if (again) {
    checkpointer.save(target + "-first", args, {.if_exists = cairn::IfExists::kReplace});
    checkpointer.wait_until_finished();
    fs::remove_all(target + "-first");
  }
  Figures figures{.bytes = tree_bytes(args.item), .rss_before = bench::rss()};
  const auto start = Clock::now();
  checkpointer.save(target, args);
  figures.seconds = seconds_since(start);
  checkpointer.wait_until_finished();
  figures.total_seconds = seconds_since(start);
  fs::remove_all(target + "-first");
  return figures;
}

// A model, of which a hundredth is trained: small matrices beside the large ones.
cairn::Tree adapted(const cairn::Tree& frozen, std::uint64_t step) {
  cairn::Tree::Dict adapters;
  for (const auto& entry : cairn::flatten(frozen)) {
    const auto* array = entry.value.array();
    if (array == nullptr) continue;
    const auto count = std::max<std::size_t>(array->bytes().size() / 400, 1);
    auto small = cairn::Array::allocate(cairn::DType::kFloat32, {static_cast<std::int64_t>(count)});
    fill_random(small.mutable_view().data, small.bytes().size(), step * 1000 + adapters.size());
    adapters.emplace_back(fmt::format("a{:04}", adapters.size()), cairn::Tree(std::move(small)));
  }
  return cairn::Tree{{"frozen", frozen}, {"trained", cairn::Tree(std::move(adapters))}};
}

Figures save_step(const std::string& data, const std::string& target,
                  const std::vector<std::string>& words) {
  const auto has = [&](const char* word) {
    return std::find(words.begin(), words.end(), word) != words.end();
  };
  cairn::CheckpointManagerOptions options{.enable_async_checkpointing = false};
  if (has("reuse")) options.handler.reuse = cairn::Reuse::kUnchanged;
  auto manager = std::make_unique<cairn::CheckpointManager>(target, options);
  const cairn::Tree frozen = tree_of(data);
  manager->save(1, cairn::PyTreeSaveArgs{adapted(frozen, 1)});
  Figures figures{.seconds = 0, .bytes = tree_bytes(frozen), .rss_before = bench::rss()};
  std::vector<double> seconds;
  for (const std::int64_t step : {2, 3, 4}) {
    const cairn::PyTreeSaveArgs tree{adapted(frozen, static_cast<std::uint64_t>(step))};
    if (has("restart")) manager = std::make_unique<cairn::CheckpointManager>(target, options);
    const auto start = Clock::now();
    manager->save(step, tree);
    seconds.push_back(seconds_since(start));
  }
  std::sort(seconds.begin(), seconds.end());
  figures.seconds = seconds[1];
  figures.written = cairn::read_steps(target).back().unique_nbytes;
  return figures;
}

Figures save_tensorflow(const std::string& data, const std::string& target) {
  const cairn::TensorFlowWriteOptions options{.like = cairn::TensorFlowWriteOptions::Like::kWrite};
  cairn::write_tensorflow(target + "-first/model", cairn::Tree(std::int64_t{1}), options);
  const cairn::Tree tree = tree_of(data);
  Figures figures{.seconds = 0, .bytes = tree_bytes(tree), .rss_before = bench::rss()};
  const auto start = Clock::now();
  cairn::write_tensorflow(target + "/model", tree, options);
  figures.seconds = seconds_since(start);
  fs::remove_all(target + "-first");
  return figures;
}

// ---- floors ----
// New huge pages. They are never freed, because the process ends soon.
std::byte* fresh(std::size_t size) {
  void* at =
      ::mmap(nullptr, size + kHuge, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED) throw std::runtime_error("mmap");
  const auto address = (reinterpret_cast<std::uintptr_t>(at) + kHuge - 1) / kHuge * kHuge;
  auto* aligned = reinterpret_cast<std::byte*>(address);
  ::madvise(aligned, size, MADV_HUGEPAGE);
  return aligned;
}

std::byte* filled(std::size_t size) {
  std::byte* memory = fresh(size);
  fill_random(memory, size, 1);
  return memory;
}

std::size_t floor_bytes(const std::string& data) {
  return (tree_bytes(tree_of(data)) + kPiece - 1) / kPiece * kPiece;
}

Figures floor_direct(const std::string& data, const std::string& target) {
  constexpr std::size_t kThreads = 8;
  const std::size_t total = floor_bytes(data);
  std::byte* source = filled(total);
  std::atomic<std::uint32_t> checksum{0};
  const auto start = Clock::now();
  const int file = ::open(target.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_DIRECT | O_CLOEXEC, 0666);
  if (file < 0) throw std::runtime_error("cannot open " + target + " with O_DIRECT");
  on_threads(kThreads, total / kPiece, [&](std::size_t i) {
    std::byte* piece = source + i * kPiece;
    checksum ^= crc32_iscsi(reinterpret_cast<unsigned char*>(piece), static_cast<int>(kPiece), 0);
    for (std::size_t done = 0; done < kPiece;) {
      const auto n =
          ::pwrite(file, piece + done, kPiece - done, static_cast<off_t>(i * kPiece + done));
      if (n <= 0) std::abort();
      done += static_cast<std::size_t>(n);
    }
  });
  if (::fsync(file) != 0) throw std::runtime_error("fsync");
  const double seconds = seconds_since(start);
  ::close(file);
  return {.seconds = seconds, .bytes = total};
}

Figures floor_memcpy(const std::string& data, bool is_fresh) {
  const std::size_t total = floor_bytes(data);
  std::byte* source = filled(total);
  std::byte* target = is_fresh ? fresh(total) : filled(total);
  const auto start = Clock::now();
  on_threads(std::max(1U, std::thread::hardware_concurrency()), total / kPiece,
             [&](std::size_t i) { std::memcpy(target + i * kPiece, source + i * kPiece, kPiece); });
  return {.seconds = seconds_since(start), .bytes = total};
}

Figures run(const std::vector<std::string>& words) {
  const auto& mode = words.at(0);
  if (mode == "save")
    return save(words.at(1), words.at(2), options_of({words.begin() + 3, words.end()}));
  if (mode == "async")
    return save_async(words.at(1), words.at(2), {words.begin() + 3, words.end()});
  if (mode == "save-step")
    return save_step(words.at(1), words.at(2), {words.begin() + 3, words.end()});
  if (mode == "save-tensorflow") return save_tensorflow(words.at(1), words.at(2));
  if (mode == "floor-direct") return floor_direct(words.at(1), words.at(2));
  if (mode == "floor-memcpy") return floor_memcpy(words.at(1), false);
  if (mode == "floor-copy") return floor_memcpy(words.at(1), true);
  throw std::invalid_argument("unknown mode " + mode);
}

}  // namespace

int main(int argc, char** argv) try {
  const Figures figures = run({argv + 1, argv + argc});
  const std::uint64_t peak = bench::peak_rss();
  fmt::print(
      "{{\"seconds\": {:.6f}, \"total_seconds\": {:.6f}, \"bytes\": {}, \"peak_rss\": {}, "
      "\"beyond_data\": {}, \"written\": {}}}\n",
      figures.seconds, std::max(figures.seconds, figures.total_seconds), figures.bytes, peak,
      peak - figures.rss_before, figures.written);
  return 0;
} catch (const std::exception& error) {
  fmt::print(stderr, "save_bench: {}\n", error.what());
  return 1;
}
