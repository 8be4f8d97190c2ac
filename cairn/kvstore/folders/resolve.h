// resolve.h -- what a user's path or URL names: a place on this machine, or in a store.
#pragma once

#include <cairn/io/tree/file_tree.h>
#include <cairn/io/tree/folder_handle.h>
#include <cairn/storage/kvstore.h>
#include <cairn/storage/store_options.h>

#include <string>
#include <string_view>

namespace cairn::inline v0 {

// True for a URL of a store: s3://, gs://, http://, https://, hf://, memory://NAME. False for paths
// and file URLs. Throws unimplemented for a URL of another scheme.
bool is_store_url(std::string_view where);
// False for a web server, of which only files can be opened.
bool can_list(std::string_view url);
// Throws unimplemented for the URL of a store that can only be read: a web server, the hub.
void check_can_write(std::string_view url);
// Returns a plain path as it is, and file:///path as /path. Throws unimplemented for other URLs.
std::string local_path(const std::string& where);
// Returns local_path(), or the URL of a store without a final '/'. Throws invalid_argument for a
// URL that ends with its scheme.
std::string normal_path(const std::string& where);

// Opens the folder at a normal_path(). Throws not_found if nothing is there.
FolderPtr open_folder(const std::string& path, const StoreOptions& options);
// Where a reader of the file or folder at a normal_path(), and of what lies beside it, looks.
FileTree tree_around(const std::string& path, const StoreOptions& options);

}  // namespace cairn::inline v0
