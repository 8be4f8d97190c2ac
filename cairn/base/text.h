// text.h -- checks the characters of names, and takes paths apart.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

namespace cairn::inline v0 {

inline constexpr std::string_view kDecimalDigits = "0123456789";
inline constexpr std::string_view kHexDigits = "0123456789abcdef";

// Returns true if `text` is not empty and contains only characters of `characters`.
inline bool consists_of(std::string_view text, std::string_view characters) {
  return !text.empty() && text.find_first_not_of(characters) == std::string_view::npos;
}

// Returns the parts between the separators: at least one, which may be empty.
inline std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (std::size_t start = 0; start <= text.size();) {
    const std::size_t end = std::min(text.find(separator, start), text.size());
    parts.push_back(text.substr(start, end - start));
    start = end + 1;
  }
  return parts;
}

// Returns the folder of a path: "." if the path has no slash.
inline std::string parent_of(std::string_view path) {
  const std::size_t slash = path.rfind('/');
  if (slash == std::string_view::npos) return ".";
  return std::string(path.substr(0, std::max<std::size_t>(slash, 1)));
}

// True if the text begins as a URL, "s3://...", and not as a path.
inline bool begins_as_url(std::string_view text) {
  const std::size_t end = text.find("://");
  return end != std::string_view::npos && end > 0 && text.find('/') > end;
}

// Returns the part of a path up to its last slash, with the slash: "" if the path has none. This
// and name_of(path) are the whole path.
inline std::string_view folder_prefix(std::string_view path) {
  return path.substr(0, path.rfind('/') + 1);
}
// Returns the part of a path after its last slash.
inline std::string_view name_of(std::string_view path) { return path.substr(path.rfind('/') + 1); }

// Returns the path without the slashes at its end; the root stays "/".
inline std::string_view without_final_slashes(std::string_view path) {
  while (path.size() > 1 && path.ends_with('/')) path.remove_suffix(1);
  return path;
}

// Returns true if a path goes down from a folder: each of its parts is a name, and none is "." or
// "..".
inline bool is_below_folder(std::string_view path) {
  const std::vector<std::string_view> parts = split(path, '/');
  return std::none_of(parts.begin(), parts.end(), [](std::string_view part) {
    return part.empty() || part == "." || part == "..";
  });
}

// The same for a path that may begin with a slash and end with one.
inline bool has_only_names(std::string_view path) {
  if (path.starts_with('/')) path.remove_prefix(1);
  if (path.size() > 1 && path.ends_with('/')) path.remove_suffix(1);
  return path.empty() || is_below_folder(path);
}

// Returns true if `f` does for a prefix of `path` that ends before a slash at or after `from`.
template <class F>
bool any_parent(std::string_view path, F f, std::size_t from = 0) {
  for (std::size_t slash = path.find('/', from); slash != std::string_view::npos;
       slash = path.find('/', slash + 1))
    if (f(path.substr(0, slash))) return true;
  return false;
}

// The same in the other order: the longest prefix first.
template <class F>
bool any_parent_from_end(std::string_view path, F f) {
  for (std::size_t slash = path.rfind('/'); slash != std::string_view::npos;
       slash = slash == 0 ? std::string_view::npos : path.rfind('/', slash - 1))
    if (f(path.substr(0, slash))) return true;
  return false;
}

}  // namespace cairn::inline v0
