// copied_item.cc -- lists and copies the files of one item.
#include <cairn/orbax/save/copied_item.h>

#include <cairn/base/text.h>
#include <cairn/io/atomic_file.h>
#include <cairn/io/file.h>
#include <cairn/orbax/layout/layout.h>

#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <set>
#include <system_error>

namespace cairn::inline v0::orbax {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kCopyBuffer = std::size_t{1} << 20U;

// Refuses files and folders outside of the source, to which a symbolic link may lead. An object
// store has no links.
class SourceBounds {
 public:
  explicit SourceBounds(const CopiedItem& item)
      : follows_(item.follow_links || !item.folder->is_local()) {
    if (!follows_) root_ = fs::canonical(item.folder->path(), error_);
  }

  // Throws failed_precondition if `path` leads out of the source. What cannot be resolved cannot be
  // opened, either.
  void check(const std::string& path) const {
    if (follows_) return;
    std::error_code error;
    const fs::path real = fs::canonical(path, error);
    if (!error && (error_ || !is_inside(real))) leads_out(path, real);
  }
  // As above, for the open file of that path. A link that was replaced since then leads elsewhere.
  void check(const std::string& path, const File& file) const {
    if (follows_) return;
    std::error_code error;
    const fs::path real = fs::canonical(path, error);
    const FileState state = file.state();
    struct stat status {};
    if (error || error_ || !is_inside(real) || lstat(real.c_str(), &status) != 0 ||
        status.st_dev != state.device || status.st_ino != state.inode)
      leads_out(path, real);
  }

 private:
  [[nodiscard]] bool is_inside(const fs::path& real) const {
    return std::mismatch(root_.begin(), root_.end(), real.begin(), real.end()).first == root_.end();
  }
  [[noreturn]] void leads_out(const std::string& path, const fs::path& real) const {
    throw Error(Code::kFailedPrecondition,
                path + ": a symbolic link leads out of the checkpoint, to " + real.string() +
                    "; leave the item out, or copy what the link leads to with --follow-links "
                    "(follow_links)");
  }

  bool follows_;
  fs::path root_;
  std::error_code error_;
};

// Breadth first, so that deep folders need no recursion.
std::vector<std::string> list_names(const CopiedItem& item, const SourceBounds& bounds) {
  std::vector<std::string> files;
  std::vector<std::string> folders{""};
  std::set<FileIdentity> seen;
  for (std::size_t i = 0; i < folders.size(); ++i) {
    const std::string below = folders[i];
    const std::string path = below.empty() ? item.path : join(item.path, below);
    if (name_of(path).find(kTemporaryMark) != std::string_view::npos)
      throw Error(Code::kFailedPrecondition, path + ": is unfinished, so it cannot be copied");
    bounds.check(path);
    const auto identity = item.folder->identity(path);
    if (!identity || !seen.insert(*identity).second)
      throw Error(Code::kFailedPrecondition,
                  path + ": is reached twice, through a symbolic link, so it cannot be copied");
    for (const auto& [name, is_folder] : item.folder->list(path)) {
      if (below.empty() && !is_folder && name == kCommitFile) continue;
      (is_folder ? folders : files).push_back(below.empty() ? name : join(below, name));
    }
  }
  std::sort(files.begin(), files.end());
  return files;
}

// The first check keeps devices and pipes outside of the source from being opened.
File open_inside(const CopiedItem& item, const std::string& name, const SourceBounds& bounds) {
  const std::string path = join(item.path, name);
  bounds.check(path);
  File file = item.folder->open_file(path);
  bounds.check(path, file);
  return file;
}

// Holes of the file stay holes, so a file of gigabytes that stores nothing takes no time or space.
void copy_file(const File& from, const std::string& to) {
  AtomicFile out(to);
  Bytes buffer(kCopyBuffer);
  const std::uint64_t size = from.size();
  for (auto data = from.data_from(0); data && data->first < size;
       data = from.data_from(data->second)) {
    const std::uint64_t end = std::min(data->second, size);
    for (std::uint64_t at = data->first; at < end; at += kCopyBuffer) {
      const MutableByteView block(buffer.data(), std::min<std::uint64_t>(kCopyBuffer, end - at));
      from.read_into(at, block);
      out.write_at(at, block);
    }
  }
  out.extend(size);
  out.commit(Durability::kUnsynced);
}

// As above, to a value of a store, which has no holes.
void copy_file(const File& from, KvStore& files, const std::string& key) {
  const std::unique_ptr<Appender> out = files.append(key);
  Bytes buffer(kCopyBuffer);
  const std::uint64_t size = from.size();
  for (std::uint64_t at = 0; at < size; at += kCopyBuffer) {
    const MutableByteView block(buffer.data(), std::min<std::uint64_t>(kCopyBuffer, size - at));
    from.read_into(at, block);
    const ByteView read = block;
    out->append({&read, 1});
  }
  out->commit();
}

}  // namespace

std::vector<CopiedFile> list_files(const CopiedItem& item) {
  const SourceBounds bounds(item);
  std::vector<CopiedFile> files;
  for (std::string& name : list_names(item, bounds)) {
    const File file = open_inside(item, name, bounds);
    files.push_back({std::move(name), file.size(), file.allocated()});
  }
  return files;
}

void copy_item(const CopiedItem& item, const OutputFolder& target) {
  in_folder(item.folder.get(), [&] {
    const SourceBounds bounds(item);
    const StorePtr files = target.is_local() ? nullptr : target.files(Durability::kSynced);
    for (const std::string& name : list_names(item, bounds)) {
      const File from = open_inside(item, name, bounds);
      if (files) {
        copy_file(from, *files, name);
        continue;
      }
      const std::string to = join(target.path(), name);
      make_directories(parent_of(to), Durability::kDeferredSync);
      copy_file(from, to);
    }
  });
}

}  // namespace cairn::inline v0::orbax
