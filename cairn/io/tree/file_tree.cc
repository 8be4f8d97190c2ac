// file_tree.cc -- passes questions on to the file system or to a folder.
#include <cairn/io/tree/file_tree.h>

#include <cairn/io/directory.h>
#include <cairn/io/tree/local_folder.h>

#include <filesystem>
#include <system_error>

namespace cairn::inline v0 {

const FolderHandle* FileTree::folder_for(const std::string& path) const {
  const std::string& folder = folder_->path();
  const bool is_inside =
      path.starts_with(folder) && (path.size() == folder.size() || path[folder.size()] == '/');
  return is_inside ? folder_.get() : nullptr;
}

std::optional<File> FileTree::try_open(const std::string& path) const {
  if (!folder_) return File::try_open(path);
  const FolderHandle* const folder = folder_for(path);
  return folder != nullptr ? folder->try_open(path) : std::nullopt;
}

File FileTree::open(const std::string& path) const {
  if (!folder_) return File::open(path);
  if (const FolderHandle* const folder = folder_for(path)) return folder->open_file(path);
  throw Error(Code::kNotFound, path + ": is not in " + folder_->path());
}

bool FileTree::exists(const std::string& path) const {
  if (!folder_) return file_exists(path);
  const FolderHandle* const folder = folder_for(path);
  return folder != nullptr && folder->exists(path);
}

bool FileTree::is_folder(const std::string& path) const {
  if (!folder_) return directory_exists(path);
  const FolderHandle* const folder = folder_for(path);
  return folder != nullptr && folder->is_folder(path);
}

bool FileTree::is_special_file(const std::string& path) const {
  return is_local() && cairn::is_special_file(path);
}

std::string FileTree::kind_at(const std::string& path) const {
  if (!folder_) return cairn::kind_at(path);
  const FolderHandle* const folder = folder_for(path);
  return folder != nullptr ? folder->kind_at(path) : "nothing";
}

bool FileTree::is_file(const std::string& path) const {
  std::error_code ignored;
  if (!folder_) return std::filesystem::is_regular_file(path, ignored);
  const FolderHandle* const folder = folder_for(path);
  return folder != nullptr && folder->file_size(path).has_value();
}

std::vector<FolderEntry> FileTree::entries(const std::string& path) const {
  if (!folder_) return LocalFolder::open(path)->entries(path);
  const FolderHandle* const folder = folder_for(path);
  return folder != nullptr ? folder->entries(path) : std::vector<FolderEntry>();
}

std::set<std::string, std::less<>> FileTree::names_in(const std::string& folder) const {
  if (!folder_) return cairn::names_in(folder);
  std::set<std::string, std::less<>> names;
  for (FolderEntry& entry : entries(folder)) names.insert(std::move(entry.name));
  return names;
}

Buffer FileTree::read_text(const std::string& path, std::uint64_t max_size) const {
  return cairn::read_text(open(path), max_size);
}

}  // namespace cairn::inline v0
