// spec_path.h -- path functions that behave as Python's standard library, so that specs name the
// same places as Orbax's.
#pragma once

#include <string>
#include <string_view>

namespace cairn::inline v0::handlers {

// os.path.normpath; afterwards every "gs:/" becomes "gs://" again.
std::string normalized_directory(std::string_view path);
// os.path.join: an absolute `name` replaces the directory.
std::string joined_path(std::string_view directory, std::string_view name);
// str(pathlib.PurePosixPath(path)).
std::string posix_path(std::string_view path);
// The path that TensorStore's file driver makes of `path`: '\' becomes '/'. Returns a path
// unchanged if the driver would refuse it.
std::string file_driver_path(const std::string& path);

// Whether the path begins with "gs://".
bool is_gcs_path(std::string_view path);
// A place in Google Cloud Storage.
struct GcsPath {
  std::string bucket;
  std::string path;  // without a leading '/'
};
// Splits gs://bucket/path as a URL; a query and a fragment do not belong to the path. Throws
// invalid_argument without a bucket.
GcsPath parse_gcs_path(std::string_view url);

}  // namespace cairn::inline v0::handlers
