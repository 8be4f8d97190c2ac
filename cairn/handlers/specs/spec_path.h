// spec_path.h -- paths as Python's standard library takes them apart, so that specs name the same
// places that Orbax's do.
#pragma once

#include <string>
#include <string_view>

namespace cairn::handlers {

// os.path.normpath, and "gs:/" made "gs://" again, wherever it is.
std::string normalized_directory(std::string_view path);
// os.path.join: an absolute `name` stands for itself.
std::string joined_path(std::string_view directory, std::string_view name);
// str(pathlib.PurePosixPath(path)).
std::string posix_path(std::string_view path);
// The path that TensorStore's file driver makes of `path`: '\' is '/'. Unchanged where it would
// refuse the path.
std::string file_driver_path(const std::string& path);

bool is_gcs_path(std::string_view path);
struct GcsPath {
  std::string bucket;
  std::string path;  // without '/' in front
};
// gs://bucket/path, as a URL: a query and a fragment are no part of the path. invalid_argument
// without a bucket.
GcsPath parse_gcs_path(std::string_view url);

}  // namespace cairn::handlers
