// restore_bench.cc -- times one restore, or one floor (a lower bound on the time), inside a new
// process. compare.py alternates it with its peers.
//
//   restore_bench MODE CHECKPOINT [NAME LO HI | COUNT]     (touch: BYTES in place of CHECKPOINT)
//
//   load          opens and reads everything into memory of this process
//   slice         opens and reads rows [LO, HI) of one tensor; read_seconds is the read alone
//   some          opens and reads every COUNT-th tensor; read_seconds is the read alone
//   manager       makes a CheckpointManager for a directory of steps, which lists them
//   manager-best  the same, and finds the best step, for which it reads each step's metadata
//   floor-pread   all cores pread the checkpoint's data files into huge pages: no reader can be
//                 faster
//   floor-memcpy  all cores copy as many bytes from touched memory into huge pages
//   touch BYTES   touches new memory on all cores and ends; see compare.py
//   floor-zstd    all cores run libzstd over the stored chunks, which are already in memory, into
//                 huge pages
//
// The program prints one line of JSON: {"seconds", "read_seconds", "bytes", "peak_rss"}.
#include <cairn/cairn.h>
#include <cairn/checkpoint_manager.h>
#include <cairn/storage/kvstore.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>
#include <zstd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "process_memory.h"

namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

struct Figures {
  double seconds = 0;
  double read_seconds = 0;
  std::uint64_t bytes = 0;
};

std::size_t cores() { return std::max(1U, std::thread::hardware_concurrency()); }

// Runs f(i) for i in [0, n) on all cores.
template <class F>
void on_all_cores(std::size_t n, F f) {
  std::atomic<std::size_t> next{0};
  std::vector<std::jthread> threads;
  for (std::size_t t = 0; t < cores(); ++t)
    threads.emplace_back([&] {
      for (std::size_t i = next++; i < n; i = next++) f(i);
    });
}

// ---- Cairn ----
cairn::OpenOptions options() { return {}; }

std::uint64_t tree_bytes(const cairn::Tree& tree) {
  std::uint64_t total = 0;
  for (const auto& entry : cairn::flatten(tree))
    if (const auto* array = entry.value.array()) total += array->bytes().size();
  return total;
}

Figures load(const std::string& path) {
  const auto start = Clock::now();
  const auto checkpoint = cairn::open(path, options());
  const auto opened = Clock::now();
  const cairn::Tree tree = checkpoint->load();
  return {seconds_since(start), seconds_since(opened), tree_bytes(tree)};
}

Figures slice(const std::string& path, const std::string& name, std::int64_t lo, std::int64_t hi) {
  const auto start = Clock::now();
  const auto checkpoint = cairn::open(path, options());
  const auto opened = Clock::now();
  const auto& info = checkpoint->info(name);
  auto box = cairn::Box::whole(info.shape);
  box.origin.at(0) = lo;
  box.shape.at(0) = hi - lo;
  auto array = cairn::Array::allocate(info.dtype, box.shape);
  checkpoint->read(name, box, array.mutable_view());
  return {seconds_since(start), seconds_since(opened), array.bytes().size()};
}

Figures some(const std::string& path, std::size_t step) {
  const auto start = Clock::now();
  const auto checkpoint = cairn::open(path, options());
  const auto opened = Clock::now();
  std::vector<cairn::Array> arrays;
  std::vector<cairn::ReadRequest> requests;
  for (std::size_t i = 0; i < checkpoint->tensors().size(); i += step) {
    const auto& info = checkpoint->tensors()[i];
    arrays.push_back(cairn::Array::allocate(info.dtype, info.shape));
    requests.push_back({i, cairn::Box::whole(info.shape), arrays.back().mutable_view()});
  }
  checkpoint->read(requests, {});
  Figures figures{seconds_since(start), seconds_since(opened), 0};
  for (const auto& array : arrays) figures.bytes += array.bytes().size();
  return figures;
}

// ---- floors ----
// Anonymous memory that requests huge pages. It is never freed, because the process ends soon.
std::byte* fresh(std::size_t size) {
  constexpr std::size_t kHuge = std::size_t{2} << 20U;
  void* at =
      ::mmap(nullptr, size + kHuge, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED) throw std::runtime_error("mmap");
  const auto address = (reinterpret_cast<std::uintptr_t>(at) + kHuge - 1) / kHuge * kHuge;
  auto* aligned = reinterpret_cast<std::byte*>(address);
  ::madvise(aligned, size, MADV_HUGEPAGE);
  return aligned;
}

struct Piece {
  int file = -1;
  std::uint64_t offset = 0;
  std::size_t length = 0;
  std::size_t target = 0;
};

// The data files of a checkpoint, cut into pieces of 4 MiB.
std::vector<Piece> data_pieces(const std::string& path, std::size_t& total) {
  constexpr std::uint64_t kPiece = std::uint64_t{4} << 20U;
  std::vector<Piece> pieces;
  for (const auto& entry : fs::recursive_directory_iterator(path)) {
    if (!entry.is_regular_file() || entry.file_size() < 4096) continue;
    const int file = ::open(entry.path().c_str(), O_RDONLY | O_CLOEXEC);
    for (std::uint64_t at = 0; at < entry.file_size(); at += kPiece) {
      const auto length = static_cast<std::size_t>(std::min(kPiece, entry.file_size() - at));
      pieces.push_back({file, at, length, total});
      total += length;
    }
  }
  return pieces;
}

Figures floor_pread(const std::string& path) {
  const auto start = Clock::now();
  std::size_t total = 0;
  const auto pieces = data_pieces(path, total);
  std::byte* target = fresh(total);
  on_all_cores(pieces.size(), [&](std::size_t i) {
    const Piece& p = pieces[i];
    if (::pread(p.file, target + p.target, p.length, static_cast<off_t>(p.offset)) !=
        static_cast<ssize_t>(p.length))
      std::abort();
  });
  return {seconds_since(start), 0, total};
}

Figures floor_memcpy(const std::string& path) {
  std::size_t total = 0;
  const auto pieces = data_pieces(path, total);
  std::byte* source = fresh(total);
  std::memset(source, 1, total);
  const auto start = Clock::now();
  std::byte* target = fresh(total);
  on_all_cores(pieces.size(), [&](std::size_t i) {
    std::memcpy(target + pieces[i].target, source + pieces[i].target, pieces[i].length);
  });
  return {seconds_since(start), 0, total};
}

Figures touch(std::size_t total) {
  const auto start = Clock::now();
  constexpr std::size_t kPiece = std::size_t{4} << 20U;
  std::byte* target = fresh(total);
  on_all_cores(total / kPiece, [&](std::size_t i) { std::memset(target + i * kPiece, 1, kPiece); });
  return {seconds_since(start), 0, total};
}

// Decodes the chunks of the item's database in a checkpoint without an item folder.
Figures floor_zstd(const std::string& path) {
  const auto store = cairn::open_ocdbt(cairn::open_file_store(path));
  std::vector<cairn::Bytes> chunks;
  std::vector<std::size_t> sizes, targets;
  std::size_t total = 0;
  for (const auto& entry : store->list("")) {
    auto value = store->read(entry.key, {});
    const auto size = ZSTD_getFrameContentSize(value->data(), value->size());
    // array metadata, which is not a zstd frame
    if (size == ZSTD_CONTENTSIZE_ERROR || size == ZSTD_CONTENTSIZE_UNKNOWN) continue;
    chunks.push_back(std::move(*value));
    sizes.push_back(size);
    targets.push_back(total);
    total += size;
  }
  const auto start = Clock::now();
  std::byte* target = fresh(total);
  on_all_cores(chunks.size(), [&](std::size_t i) {
    thread_local ZSTD_DCtx* context = ZSTD_createDCtx();
    if (ZSTD_decompressDCtx(context, target + targets[i], sizes[i], chunks[i].data(),
                            chunks[i].size()) != sizes[i])
      std::abort();
  });
  return {seconds_since(start), 0, total};
}

Figures manager(const std::string& path, bool best) {
  cairn::CheckpointManagerOptions options{.read_only = true};
  if (best) options.best_fn = cairn::metric("loss");
  const auto start = Clock::now();
  const cairn::CheckpointManager made(path, std::move(options));
  if (!(best ? made.best_step() : made.latest_step()) && !best)
    throw std::runtime_error(path + ": no steps");
  return {.seconds = seconds_since(start)};
}

Figures run(const std::vector<std::string>& words) {
  const auto& mode = words.at(0);
  const auto& path = words.at(1);
  if (mode == "load") return load(path);
  if (mode == "slice")
    return slice(path, words.at(2), std::stoll(words.at(3)), std::stoll(words.at(4)));
  if (mode == "some") return some(path, std::stoul(words.at(2)));
  if (mode == "manager") return manager(path, false);
  if (mode == "manager-best") return manager(path, true);
  if (mode == "touch") return touch(std::stoull(path));
  if (mode == "floor-pread") return floor_pread(path);
  if (mode == "floor-memcpy") return floor_memcpy(path);
  if (mode == "floor-zstd") return floor_zstd(path);
  throw std::invalid_argument("unknown mode " + mode);
}

}  // namespace

int main(int argc, char** argv) try {
  const Figures figures = run({argv + 1, argv + argc});
  fmt::print("{{\"seconds\": {:.6f}, \"read_seconds\": {:.6f}, \"bytes\": {}, \"peak_rss\": {}}}\n",
             figures.seconds, figures.read_seconds, figures.bytes, bench::peak_rss());
  return 0;
} catch (const std::exception& error) {
  fmt::print(stderr, "restore_bench: {}\n", error.what());
  return 1;
}
