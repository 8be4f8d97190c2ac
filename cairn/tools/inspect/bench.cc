// bench.cc -- measures the storage below a folder, and Cairn on it: the same bytes, one method
// after another.
#include <cairn/base/checksum.h>
#include <cairn/base/executor.h>
#include <cairn/error.h>
#include <cairn/io/atomic_file.h>
#include <cairn/io/direct_file.h>
#include <cairn/io/directory.h>
#include <cairn/io/file.h>
#include <cairn/io/scratch_folder.h>
#include <cairn/kvstore/file_system.h>
#include <cairn/maintain.h>
#include <cairn/options.h>
#include <cairn/orbax/open.h>
#include <cairn/tools/inspect/bench_figures.h>
#include <cairn/tools/report/json_text.h>
#include <fcntl.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <filesystem>
#include <fstream>

namespace cairn::inline v0 {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kArrays = 8;
constexpr std::uint64_t kPiece = std::uint64_t{4} << 20U;
constexpr std::uint64_t kLeastSize = kArrays * kPiece;
constexpr std::uint64_t kSpare = std::uint64_t{64} << 20U;

std::uint64_t free_bytes(const std::string& folder) {
  struct statvfs about {};
  if (statvfs(folder.c_str(), &about) != 0)
    throw Error(Code::kIo, folder + ": cannot get the free space");
  return std::uint64_t{about.f_bavail} * about.f_frsize;
}

// The available memory of the system; the largest number if it is unknown.
std::uint64_t available_memory() {
  std::ifstream in("/proc/meminfo");
  std::string name;
  std::uint64_t kilobytes = 0;
  for (std::string rest; in >> name >> kilobytes && std::getline(in, rest);)
    if (name == "MemAvailable:") return kilobytes * 1024;
  return ~std::uint64_t{0};
}

std::string mib(std::uint64_t bytes) { return std::to_string(bytes >> 20U) + " MiB"; }

// Random bits, which do not compress.
void fill(MutableByteView out, std::uint64_t seed) {
  std::uint64_t state = seed * 0x9e3779b97f4a7c15U + 1;
  for (std::size_t at = 0; at + sizeof(state) <= out.size(); at += sizeof(state)) {
    state ^= state << 13U;
    state ^= state >> 7U;
    state ^= state << 17U;
    std::memcpy(out.data() + at, &state, sizeof(state));
  }
}

class Bench {
 public:
  Bench(const std::string& folder, const BenchOptions& options)
      : options_(options), folder_(folder) {
    each_ = options.size / kArrays / kPiece * kPiece;
    report_.folder = fs::path(folder).parent_path().string();
    report_.file_system = file_system_of(folder).name;
    report_.free_bytes = free_bytes(folder);
    report_.threads = default_executor().threads();
    report_.size = each_ * kArrays;
    if (report_.free_bytes < report_.size + kSpare)
      throw Error(Code::kIo, report_.folder + ": the benchmark writes " +
                                 mib(report_.size + kSpare) + ", but only " +
                                 mib(report_.free_bytes) +
                                 " are free; choose a smaller size or another folder");
    const std::uint64_t memory = available_memory();
    if (memory / 5 * 2 < report_.size)
      throw Error(Code::kUnavailable, "the benchmark needs twice " + mib(report_.size) +
                                          " of memory, but only " + mib(memory) +
                                          " are available; choose a smaller size");
  }

  BenchReport run();

 private:
  template <class F>
  void timed(std::vector<BenchFigure>& figures, const char* name, F f) {
    figures.push_back(measure(name, report_.size, f));
    count_step();
  }
  void count_step() {
    const std::uint64_t all = kSteps + kThreadSteps * options_.threads.size();
    if (options_.progress) options_.progress(++steps_ * report_.size, all * report_.size);
  }
  template <class F>
  void each_array(F f) {
    default_executor().for_each(kArrays, f);
  }
  [[nodiscard]] std::string file(std::size_t i) const {
    return folder_.path() + "/data" + std::to_string(i);
  }
  [[nodiscard]] ByteView bytes(std::size_t i) const {
    return tree_.find("w" + std::to_string(i))->array()->bytes();
  }

  void make_tree();
  void memory();
  void disk();
  void checkpoint();
  void read_files(MutableByteView into);
  void by_threads();

  static constexpr std::uint64_t kSteps = 9;
  const BenchOptions& options_;
  ScratchFolder folder_;
  BenchReport report_;
  std::uint64_t each_ = 0;  // bytes of an array
  std::uint64_t steps_ = 0;
  Tree tree_;
};

void Bench::make_tree() {
  std::vector<Array> arrays;
  for (std::size_t i = 0; i < kArrays; ++i)
    arrays.push_back(Array::allocate(DType::kFloat32, {static_cast<std::int64_t>(each_ / 4)}));
  each_array([&](std::size_t i) {
    fill({arrays[i].mutable_view().data, static_cast<std::size_t>(each_)}, i + 1);
  });
  Tree::Dict dict;
  for (std::size_t i = 0; i < kArrays; ++i)
    dict.emplace_back("w" + std::to_string(i), Tree(std::move(arrays[i])));
  tree_ = Tree(std::move(dict));
}

void Bench::memory() {
  Buffer copy(static_cast<std::size_t>(report_.size));
  const auto copy_all = [&] {
    each_array([&](std::size_t i) {
      std::memcpy(copy.data() + i * each_, bytes(i).data(), static_cast<std::size_t>(each_));
    });
  };
  copy_all();  // the first touch of memory is slow and must not be measured
  timed(report_.machine, "copy in memory", copy_all);
  std::atomic<std::uint32_t> checksums{0};
  timed(report_.machine, "crc32c",
        [&] { each_array([&](std::size_t i) { checksums ^= crc32c(bytes(i)); }); });
}

void Bench::read_files(MutableByteView into) {
  each_array([&](std::size_t i) {
    File::open(file(i)).read_into(0, into.subspan(i * each_, static_cast<std::size_t>(each_)));
  });
}

void Bench::disk() {
  if (report_.why_buffered.empty())
    timed(report_.machine, "write past the page cache, synced", [&] {
      each_array([&](std::size_t i) {
        AtomicFile out(file(i));
        DirectAppender direct(out.descriptor(), out.temporary_path(), 0);
        const ByteView all = bytes(i);
        direct.append({&all, 1});
        direct.finish();
        out.commit();
      });
    });
  for (std::size_t i = 0; i < kArrays; ++i) remove_tree(file(i));
  timed(report_.machine, "write through the page cache, synced", [&] {
    each_array([&](std::size_t i) {
      AtomicFile out(file(i));
      out.append(bytes(i));
      out.commit();
    });
  });
  Buffer memory(static_cast<std::size_t>(report_.size));
  std::memset(memory.data(), 0, memory.size());
  const MutableByteView into(memory.data(), memory.size());
  drop_from_cache(folder_.path());
  timed(report_.machine, "read, not in the page cache", [&] { read_files(into); });
  timed(report_.machine, "read from the page cache", [&] { read_files(into); });
  for (std::size_t i = 0; i < kArrays; ++i) remove_tree(file(i));
}

void Bench::checkpoint() {
  const std::string path = folder_.path() + "/checkpoint";
  timed(report_.cairn, "save, synced, every value with a checksum",
        [&] { save_orbax(path, tree_); });
  const auto restore = [&] { tree_ = open_orbax(path)->load(); };
  tree_ = Tree();  // free the memory for the restore
  drop_from_cache(path);
  timed(report_.cairn, "restore, not in the page cache", restore);
  tree_ = Tree();
  timed(report_.cairn, "restore from the page cache", restore);
}

void Bench::by_threads() {
  if (options_.threads.empty()) return;
  remove_tree(folder_.path() + "/checkpoint");
  const Tree small = small_tensors();
  for (const std::size_t threads : options_.threads)
    report_.by_threads.push_back(
        measure_threads(folder_.path(), tree_, small, threads, [this] { count_step(); }));
}

BenchReport Bench::run() {
  {
    const AtomicFile probe(folder_.path() + "/probe");
    report_.why_buffered = why_not_direct(probe.descriptor());
  }
  make_tree();
  memory();
  disk();
  checkpoint();
  by_threads();
  return std::move(report_);
}

JsonArray figures_json(const std::vector<BenchFigure>& figures) {
  JsonArray out;
  for (const BenchFigure& figure : figures)
    out.push_back(JsonObject{{"name", figure.name},
                             {"bytes", figure.bytes},
                             {"seconds", figure.seconds},
                             {"waits", figure.waits}});
  return out;
}

JsonArray by_threads_json(const std::vector<ThreadFigures>& all) {
  JsonArray out;
  for (const ThreadFigures& one : all)
    out.push_back(JsonObject{{"threads", static_cast<std::uint64_t>(one.threads)},
                             {"figures", figures_json(one.figures)}});
  return out;
}

constexpr std::size_t kMostThreads = 1024;

}  // namespace

void drop_from_cache(const std::string& folder) {
  for_each_below(folder, [](const std::string& entry, EntryKind kind) {
    if (kind != EntryKind::kFile) return;
    const int fd = ::open(entry.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0) return;
    posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    close(fd);
  });
}

BenchReport bench_folder(const std::string& folder, const BenchOptions& options) {
  if (options.size < kLeastSize)
    throw Error(Code::kInvalidArgument, "the size must be at least " + mib(kLeastSize));
  for (const std::size_t threads : options.threads)
    if (threads < 1 || threads > kMostThreads)
      throw Error(Code::kInvalidArgument,
                  "the number of threads must be from 1 to " + std::to_string(kMostThreads));
  return Bench(folder, options).run();
}

std::string bench_json(const BenchReport& report) {
  const bool direct = report.why_buffered.empty();
  return to_text(JsonObject{{"folder", report.folder},
                            {"file_system", report.file_system},
                            {"free_bytes", report.free_bytes},
                            {"threads", static_cast<std::uint64_t>(report.threads)},
                            {"size", report.size},
                            {"write_path", direct ? "direct" : "buffered"},
                            {"why_buffered", direct ? Json() : Json(report.why_buffered)},
                            {"machine", figures_json(report.machine)},
                            {"cairn", figures_json(report.cairn)},
                            {"by_threads", by_threads_json(report.by_threads)}},
                 JsonStyle::kPretty) +
         "\n";
}

}  // namespace cairn::inline v0
