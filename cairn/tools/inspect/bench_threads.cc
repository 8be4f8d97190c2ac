// bench_threads.cc -- saves and restores with a given number of threads. Each has one request to
// the storage at a time, so it is also the depth of the storage's queue.
#include <cairn/io/directory.h>
#include <cairn/io/file.h>
#include <cairn/orbax/open.h>
#include <cairn/tools/inspect/bench_figures.h>

#include <algorithm>
#include <atomic>
#include <utility>
#include <vector>

namespace cairn::inline v0 {
namespace {

constexpr std::size_t kTensors = 10'000;
constexpr std::int64_t kElements = 256;  // of float32
constexpr std::uint64_t kFilePart = std::uint64_t{4} << 20U;

std::uint64_t bytes_of(const Tree& tree) {
  std::uint64_t bytes = 0;
  for (const auto& leaf : flatten(tree)) bytes += leaf.value.array()->bytes().size();
  return bytes;
}

// Reads all files below the folder, in pieces that many threads take.
void read_all(const std::string& folder, Executor& executor) {
  struct FilePart {
    const File* file;
    std::uint64_t offset, size;
  };
  std::vector<std::string> paths;
  for_each_below(folder, [&](const std::string& entry, EntryKind kind) {
    if (kind == EntryKind::kFile) paths.push_back(entry);
  });
  std::vector<File> files;
  files.reserve(paths.size());
  std::vector<FilePart> pieces;
  for (const std::string& path : paths) {
    const File& file = files.emplace_back(File::open(path));
    for (std::uint64_t at = 0; at < file.size(); at += kFilePart)
      pieces.push_back({&file, at, std::min(kFilePart, file.size() - at)});
  }
  std::atomic<std::size_t> taken{0};
  executor.for_each(executor.threads(), [&](std::size_t /*worker*/) {
    Buffer memory(kFilePart);
    for (std::size_t i = taken++; i < pieces.size(); i = taken++)
      pieces[i].file->read_into(pieces[i].offset, {memory.data(), pieces[i].size});
  });
}

}  // namespace

Tree small_tensors() {
  Tree::Dict dict;
  for (std::size_t i = 0; i < kTensors; ++i) {
    Array array = Array::allocate(DType::kFloat32, {kElements});
    std::uint64_t state = i + 1;
    for (float& element : array.mutable_as<float>()) {
      state = state * 6364136223846793005U + 1442695040888963407U;
      element = static_cast<float>(state >> 40U);
    }
    dict.emplace_back("layer_" + std::to_string(i), Tree(std::move(array)));
  }
  return Tree(std::move(dict));
}

ThreadFigures measure_threads(const std::string& folder, Tree& large, const Tree& small,
                              std::size_t threads, const std::function<void()>& done) {
  ThreadFigures out{.threads = threads, .figures = {}};
  const SaveOptions save{.resources = {.threads = threads}};
  const OpenOptions open{.resources = {.threads = threads}};
  const std::uint64_t bytes = bytes_of(large), small_bytes = bytes_of(small);
  const auto add = [&](const char* name, std::uint64_t moved, const auto& call) {
    out.figures.push_back(measure(name, moved, call));
    done();
  };
  const std::string path = folder + "/large", many = folder + "/small";
  add("save, synced", bytes, [&] { save_orbax(path, large, save); });
  large = Tree();  // frees the memory for the restore
  Executor executor(threads);
  executor.for_each(threads, [](std::size_t) {});  // starts the threads
  drop_from_cache(path);
  add("read its files, not in the page cache", bytes, [&] { read_all(path, executor); });
  drop_from_cache(path);
  add("restore, not in the page cache", bytes, [&] { large = open_orbax(path, open)->load(); });
  large = Tree();
  add("restore from the page cache", bytes, [&] { large = open_orbax(path, open)->load(); });
  remove_tree(path);
  add("save 10,000 tensors of 1 KiB, synced", small_bytes, [&] { save_orbax(many, small, save); });
  Tree restored;
  add("restore them from the page cache", small_bytes,
      [&] { restored = open_orbax(many, open)->load(); });
  remove_tree(many);
  return out;
}

}  // namespace cairn::inline v0
