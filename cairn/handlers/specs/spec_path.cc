// spec_path.cc -- splits and joins paths as Python's standard library does.
#include <cairn/handlers/specs/spec_path.h>

#include <cairn/base/text.h>
#include <cairn/error.h>

#include <algorithm>
#include <vector>

namespace cairn::inline v0::handlers {
namespace {

constexpr std::string_view kGcsScheme = "gs://";

// POSIX treats exactly two leading slashes specially.
std::string_view root_of(std::string_view path) {
  if (path.starts_with("//") && !path.starts_with("///")) return "//";
  return path.starts_with('/') ? "/" : "";
}

std::string merge_into(std::string_view root, const std::vector<std::string_view>& parts) {
  std::string path(root);
  for (const std::string_view part : parts) {
    if (path.size() > root.size()) path += '/';
    path += part;
  }
  return path.empty() ? "." : path;
}

std::string normpath(std::string_view path) {
  const std::string_view root = root_of(path);
  std::vector<std::string_view> kept;
  for (const std::string_view part : split(path, '/')) {
    if (part.empty() || part == ".") continue;
    const bool up = part == ".." && (!kept.empty() || !root.empty());
    if (!up || (!kept.empty() && kept.back() == "..")) {
      kept.push_back(part);
    } else if (!kept.empty()) {
      kept.pop_back();
    }
  }
  return merge_into(root, kept);
}

}  // namespace

std::string normalized_directory(std::string_view path) {
  std::string normal = normpath(path);
  constexpr std::string_view kOneSlash = "gs:/";
  for (std::size_t at = 0; (at = normal.find(kOneSlash, at)) != std::string::npos;
       at += kGcsScheme.size())
    normal.replace(at, kOneSlash.size(), kGcsScheme);
  return normal;
}

std::string joined_path(std::string_view directory, std::string_view name) {
  if (name.starts_with('/')) return std::string(name);
  std::string path(directory);
  if (!path.empty() && path.back() != '/') path += '/';
  return path += name;
}

std::string posix_path(std::string_view path) {
  std::vector<std::string_view> parts = split(path, '/');
  std::erase_if(parts, [](std::string_view part) { return part.empty() || part == "."; });
  return merge_into(root_of(path), parts);
}

std::string file_driver_path(const std::string& path) {
  std::string slashes = path;
  std::replace(slashes.begin(), slashes.end(), '\\', '/');
  const bool valid = slashes.find('\0') == std::string::npos && has_only_names(slashes);
  return valid ? slashes : path;
}

bool is_gcs_path(std::string_view path) { return path.starts_with(kGcsScheme); }

GcsPath parse_gcs_path(std::string_view url) {
  const auto refuse = [&](const std::string& why) {
    return Error(Code::kInvalidArgument, "\"" + std::string(url) + "\": " + why);
  };
  if (!is_gcs_path(url)) throw refuse("expected gs://bucket/path");
  std::string rest(url.substr(kGcsScheme.size()));
  std::erase_if(rest, [](char c) { return c == '\t' || c == '\r' || c == '\n'; });
  GcsPath parsed;
  parsed.bucket = rest.substr(0, rest.find_first_of("/?#"));
  const bool opens = parsed.bucket.find('[') != std::string::npos;
  const bool closes = parsed.bucket.find(']') != std::string::npos;
  if (parsed.bucket.empty() || opens != closes)
    throw refuse("no bucket in it; expected gs://bucket/path");
  parsed.path = rest.substr(parsed.bucket.size());
  parsed.path.resize(std::min(parsed.path.find_first_of("?#"), parsed.path.size()));
  if (parsed.path.starts_with('/')) parsed.path.erase(0, 1);
  return parsed;
}

}  // namespace cairn::inline v0::handlers
