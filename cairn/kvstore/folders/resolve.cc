// resolve.cc -- tells URLs from paths.
#include <cairn/kvstore/folders/resolve.h>

#include <cairn/base/text.h>
#include <cairn/error.h>
#include <cairn/io/tree/local_folder.h>
#include <cairn/kvstore/folders/store_folder.h>
#include <cairn/kvstore/folders/unlisted_folder.h>
#include <cairn/kvstore/url.h>

#include <algorithm>
#include <array>
#include <utility>

namespace cairn::inline v0 {
namespace {

constexpr std::string_view kFilePrefix = "file://";
constexpr std::array<std::string_view, 6> kSchemes = {"s3", "gs", "http", "https", "hf", "memory"};

}  // namespace

bool is_store_url(std::string_view where) {
  const std::string scheme = url_scheme(where);
  if (scheme.empty() || scheme == "file") return false;
  if (std::ranges::find(kSchemes, scheme) != kSchemes.end()) return true;
  throw Error(Code::kUnimplemented,
              std::string(where) + ": Cairn has no store for URLs of scheme '" + scheme +
                  "'; it has s3, gs, http, https, hf, memory, and file for local paths");
}

bool can_list(std::string_view url) {
  const std::string scheme = url_scheme(url);
  return scheme != "http" && scheme != "https";
}

void check_can_write(std::string_view url) {
  const std::string scheme = url_scheme(url);
  if (can_list(url) && scheme != "hf") return;
  throw Error(
      Code::kUnimplemented,
      std::string(url) + ": can only be read; Cairn writes to s3://, gs:// and local paths");
}

std::string local_path(const std::string& where) {
  if (where.starts_with(kFilePrefix)) return where.substr(kFilePrefix.size());
  if (is_store_url(where))
    throw Error(Code::kUnimplemented, where + ": a local path is needed here, not a URL");
  return where;
}

std::string normal_path(const std::string& where) {
  if (!is_store_url(where)) return local_path(where);
  std::string url(without_final_slashes(where));
  if (url.find("://") == std::string::npos)
    throw Error(Code::kInvalidArgument, "URL \"" + where + "\": the name of the store is missing");
  return url;
}

FolderPtr open_folder(const std::string& path, const StoreOptions& options) {
  if (!is_store_url(path)) return LocalFolder::open(path);
  if (!can_list(path)) return UnlistedFolder::open(open_store(path, options), path);
  return StoreFolder::open(open_store(path, options), path);
}

FileTree tree_around(const std::string& path, const StoreOptions& options) {
  if (!is_store_url(path)) return {};
  // The folder above, unless that is the name of the store.
  const std::string above = parent_of(path);
  if (!can_list(path)) return FileTree(UnlistedFolder::open(open_store(above, options), above));
  FolderPtr folder = open_folder(is_store_url(above) ? above : path, options);
  // What lies deeper may be very much, and is seldom asked for.
  (void)folder->entries(folder->path());
  return FileTree(std::move(folder));
}

}  // namespace cairn::inline v0
