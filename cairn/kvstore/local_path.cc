// local_path.cc -- tells URLs from paths.
#include <cairn/kvstore/local_path.h>

#include <cairn/error.h>

#include <string_view>

namespace cairn::inline v0 {

std::string local_path(const std::string& path) {
  constexpr std::string_view kFilePrefix = "file://";
  if (path.starts_with(kFilePrefix)) return path.substr(kFilePrefix.size());
  const std::size_t scheme = path.find("://");
  if (scheme != std::string::npos && path.find('/') > scheme)
    throw Error(Code::kUnimplemented, path + ": URLs of scheme '" + path.substr(0, scheme) +
                                          "' are not supported, only local paths");
  return path;
}

}  // namespace cairn::inline v0
