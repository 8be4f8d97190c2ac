// file_tree.h -- FileTree, where a reader of files looks: this machine, or a folder of a store.
#pragma once

#include <cairn/io/file.h>
#include <cairn/io/tree/folder_handle.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace cairn::inline v0 {

// Answers the same questions about paths wherever they lead. A copy looks at the same place.
class FileTree {
 public:
  FileTree() = default;  // the paths of this machine, as the system sees them at each call
  // A folder and the paths below it. Others lead to nothing.
  explicit FileTree(FolderPtr folder) : folder_(std::move(folder)) {}

  // True if paths are those of the local file system, so that its functions may be used, too.
  [[nodiscard]] bool is_local() const { return folder_ == nullptr || folder_->is_local(); }
  // The folder; null for this machine.
  [[nodiscard]] const FolderPtr& folder() const { return folder_; }
  // As File::try_open and File::open.
  [[nodiscard]] std::optional<File> try_open(const std::string& path) const;
  [[nodiscard]] File open(const std::string& path) const;
  // As file_exists, directory_exists, is_special_file and kind_at of file.h.
  [[nodiscard]] bool exists(const std::string& path) const;
  [[nodiscard]] bool is_folder(const std::string& path) const;
  [[nodiscard]] bool is_special_file(const std::string& path) const;
  [[nodiscard]] std::string kind_at(const std::string& path) const;
  // True if a file that can be opened is there; false also if the system cannot tell.
  [[nodiscard]] bool is_file(const std::string& path) const;
  // The names in a folder; none if it does not exist.
  [[nodiscard]] std::set<std::string, std::less<>> names_in(const std::string& folder) const;
  // What is in a folder, as FolderHandle::entries(). On this machine: throws not_found if there is
  // no folder.
  [[nodiscard]] std::vector<FolderEntry> entries(const std::string& path) const;
  // As cairn::read_text, for the file at `path`.
  [[nodiscard]] Buffer read_text(const std::string& path, std::uint64_t max_size) const;

 private:
  // The folder, if the path is one that it may be asked about.
  [[nodiscard]] const FolderHandle* folder_for(const std::string& path) const;

  FolderPtr folder_;  // null: this machine
};

// Returns what f() returns or throws. f looks into files to find out what they are. In a store,
// errors that do not answer that (io, unavailable, cancelled) are thrown.
template <class F>
auto try_look(bool is_local, F f) {
  auto found = try_call(f);
  if (found.ok() || is_local) return found;
  const Code code = found.error().code();
  if (code == Code::kIo || code == Code::kUnavailable || code == Code::kCancelled)
    throw Error(found.error());
  return found;
}

}  // namespace cairn::inline v0
