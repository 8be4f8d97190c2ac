// folder_handle.cc -- what local folders and folders of stores have in common.
#include <cairn/io/tree/folder_handle.h>

#include <cairn/base/text.h>

namespace cairn::inline v0 {

std::vector<std::pair<std::string, bool>> FolderHandle::list(const std::string& path) const {
  std::vector<std::pair<std::string, bool>> names;
  for (FolderEntry& entry : entries(path))
    names.emplace_back(std::move(entry.name), entry.is_folder);
  return names;
}

std::string FolderHandle::relative(const std::string& path) const {
  std::string_view rest = without_final_slashes(path);
  if (rest == path_) return ".";
  const bool below = rest.starts_with(path_) && (path_.ends_with('/') || rest[path_.size()] == '/');
  if (!below) throw Error(Code::kInvalidArgument, path + " is not inside " + path_);
  rest.remove_prefix(path_.size());
  while (rest.starts_with('/')) rest.remove_prefix(1);
  return std::string(rest);
}

void FolderHandle::check_not_replaced() const {
  if (missed_.load(std::memory_order_relaxed)) check_still_in_use();
}

void FolderHandle::check_still_in_use() const {
  if (!replaced()) return;
  throw Error(Code::kUnavailable,
              path_ + ": was replaced or removed while Cairn read it; open it again");
}

}  // namespace cairn::inline v0
