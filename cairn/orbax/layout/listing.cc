#include <cairn/orbax/layout/listing.h>

#include <cairn/base/errors.h>
#include <cairn/kvstore/folders/resolve.h>

#include <algorithm>
#include <utility>

namespace cairn::inline v0::orbax {

bool Listing::has_file(std::string_view name) const {
  return std::binary_search(files.begin(), files.end(), name);
}
bool Listing::has_folder(std::string_view name) const {
  return std::binary_search(folders.begin(), folders.end(), name);
}

Listing list_directory(const std::string& path, const StoreOptions& store) {
  auto folder = try_call([&] { return open_folder(path, store); });
  if (folder) return list_directory(std::move(folder).value(), path);
  if (folder.error().code() != Code::kNotFound) throw Error(folder.error());
  return {path, {}, {}};
}

Listing list_directory(const FolderPtr& folder, const std::string& path) {
  Listing listing{path, {}, {}, folder};
  for (auto& [name, is_folder] : folder->list(path))
    (is_folder ? listing.folders : listing.files).push_back(std::move(name));
  std::sort(listing.files.begin(), listing.files.end());
  std::sort(listing.folders.begin(), listing.folders.end());
  return listing;
}

Listing list_below(const Listing& listing, std::string_view name) {
  return list_directory(listing.folder, join(listing.path, name));
}

std::string join(std::string_view folder, std::string_view name) {
  std::string path(folder);
  if (!path.ends_with('/')) path += '/';
  return path += name;
}

bool is_empty(const Listing& listing) { return listing.files.empty() && listing.folders.empty(); }

}  // namespace cairn::inline v0::orbax
