// listing.h -- the names in one directory, local or in a store.
#pragma once

#include <cairn/io/tree/folder_handle.h>
#include <cairn/storage/store_options.h>

#include <string>
#include <string_view>
#include <vector>

namespace cairn::inline v0::orbax {

// The names in one directory, sorted.
struct Listing {
  std::string path;
  std::vector<std::string> files;
  std::vector<std::string> folders;
  // The open handle through which the names were read: this folder or a folder above it. Null if
  // the folder does not exist.
  FolderPtr folder = nullptr;
  // True if `files` (or `folders`) contains the name.
  [[nodiscard]] bool has_file(std::string_view name) const;
  [[nodiscard]] bool has_folder(std::string_view name) const;
};
// Lists the directory `path`. Returns an empty listing if the directory does not exist. Throws
// Error(kIo) if the directory cannot be listed: an unreadable directory is not treated as an empty
// one.
Listing list_directory(const std::string& path, const StoreOptions& store = {});
// As above, for `path` at or below a folder that is held open.
Listing list_directory(const FolderPtr& folder, const std::string& path);
// Returns the two names joined with one '/'.
std::string join(std::string_view folder, std::string_view name);
Listing list_below(const Listing& listing, std::string_view name);
bool is_empty(const Listing& listing);

}  // namespace cairn::inline v0::orbax
