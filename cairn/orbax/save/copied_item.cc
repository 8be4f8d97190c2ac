// copied_item.cc -- lists and copies the files of one item.
#include <cairn/orbax/save/copied_item.h>

#include <cairn/base/text.h>
#include <cairn/io/atomic_file.h>
#include <cairn/io/file.h>
#include <cairn/orbax/layout/layout.h>

#include <algorithm>
#include <set>

namespace cairn::inline v0::orbax {
namespace {

constexpr std::size_t kCopyBuffer = std::size_t{1} << 20U;

// Breadth first, so that deep folders need no recursion.
std::vector<std::string> list_names(const CopiedItem& item) {
  std::vector<std::string> files;
  std::vector<std::string> folders{""};
  std::set<FileIdentity> seen;
  for (std::size_t i = 0; i < folders.size(); ++i) {
    const std::string below = folders[i];
    const std::string path = below.empty() ? item.path : join(item.path, below);
    if (name_of(path).find(kTemporaryMark) != std::string_view::npos)
      throw Error(Code::kFailedPrecondition, path + ": is unfinished, so it cannot be copied");
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

}  // namespace

std::vector<CopiedFile> list_files(const CopiedItem& item) {
  std::vector<CopiedFile> files;
  for (std::string& name : list_names(item)) {
    const File file = item.folder->open_file(join(item.path, name));
    files.push_back({std::move(name), file.size(), file.allocated()});
  }
  return files;
}

void copy_item(const CopiedItem& item, const std::string& target) {
  in_folder(item.folder.get(), [&] {
    for (const std::string& name : list_names(item)) {
      const std::string to = join(target, name);
      make_directories(parent_of(to), Durability::kDeferredSync);
      copy_file(item.folder->open_file(join(item.path, name)), to);
    }
  });
}

}  // namespace cairn::inline v0::orbax
