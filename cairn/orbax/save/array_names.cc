// array_names.cc -- compares the names of the arrays of a save, and their files.
#include <cairn/orbax/save/array_names.h>

#include <cairn/error.h>
#include <cairn/kvstore/file_key.h>
#include <cairn/orbax/layout/layout.h>
#include <cairn/zarr/read/array.h>

#include <algorithm>
#include <functional>
#include <iterator>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cairn::inline v0::orbax {
namespace {

[[noreturn]] void refuse_name(std::string_view name, std::string_view flaw) {
  throw Error(Code::kInvalidArgument, "the parameter name '" + std::string(name) + "' " +
                                          std::string(flaw) + "; save with OCDBT, or rename it");
}

void check_folder_name(std::string_view name) {
  if (const char* flaw = flaw_of_folder_name(name)) refuse_name(name, flaw);
  std::string_view path = name;
  if (path.ends_with('/')) path.remove_suffix(1);  // TensorStore ignores it
  if (const char* flaw = path.empty() ? nullptr : flaw_of_file_key(path))
    refuse_name(name, flaw + std::string(", as no folder can"));
}

// TensorStore ignores a '/' at the end of an array's name.
void check_array_keys(const SaveItem& item) {
  const auto ends_with_slash = [](const StoreArray& array) { return array.name.ends_with('/'); };
  if (std::ranges::none_of(item.arrays, ends_with_slash)) return;
  std::vector<std::pair<std::string_view, std::string_view>> keys;  // without it, and the name
  keys.reserve(item.arrays.size());
  for (const StoreArray& array : item.arrays) {
    std::string_view key = array.name;
    if (key.ends_with('/')) key.remove_suffix(1);
    keys.emplace_back(key, array.name);
  }
  std::sort(keys.begin(), keys.end());
  const auto twice = std::adjacent_find(
      keys.begin(), keys.end(), [](const auto& a, const auto& b) { return a.first == b.first; });
  if (twice == keys.end()) return;
  throw Error(Code::kInvalidArgument,
              "the parameter names '" + std::string(twice->second) + "' and '" +
                  std::string(std::next(twice)->second) +
                  "' mean the same place, because TensorStore ignores a '/' at the end; one "
                  "would overwrite the other");
}

[[noreturn]] void refuse_folder(const StoreArray& inner, const StoreArray& outer,
                                std::string_view file) {
  throw Error(Code::kInvalidArgument, "the folder of the parameter '" + inner.name +
                                          "' would take the place of the file '" +
                                          std::string(file) + "' of the parameter '" + outer.name +
                                          "'; save with OCDBT, or rename one of them");
}

}  // namespace

void check_array_names(const SaveItem& item, bool use_ocdbt) {
  std::vector<std::string_view> names;
  names.reserve(item.arrays.size() + item.strings.size());
  for (const StoreArray& array : item.arrays) {
    if (!use_ocdbt) check_folder_name(array.name);
    names.push_back(array.name);
  }
  for (const SaveString& string : item.strings) names.push_back(string.name);
  if (!std::is_sorted(names.begin(), names.end())) std::sort(names.begin(), names.end());
  const auto twice = std::adjacent_find(names.begin(), names.end());
  if (twice != names.end())
    throw Error(Code::kInvalidArgument, "two leaves have the parameter name '" +
                                            std::string(*twice) +
                                            "'; one would overwrite the other");
  check_array_keys(item);
}

void check_array_folders(const SaveItem& item, std::span<const std::size_t> arrays,
                         const handlers::ArrayWriter& writer) {
  std::map<std::string, std::size_t, std::less<>> folders;  // with a '/' at the end
  for (std::size_t i = 0; i < arrays.size(); ++i)
    folders.emplace(zarr::ZarrArray::key_prefix(item.arrays[arrays[i]].name), i);
  for (const auto& [folder, inner] : folders) {
    std::vector<std::size_t> ends;  // of the parts of the folder's path, without their '/'
    for (std::size_t at = folder.find('/'); at != std::string::npos; at = folder.find('/', at + 1))
      ends.push_back(at);
    for (std::size_t above = 0; above < ends.size(); ++above) {
      const std::size_t begin = above == 0 ? 0 : ends[above - 1] + 1;
      const auto outer = folders.find(std::string_view(folder).substr(0, begin));
      if (outer == folders.end()) continue;
      for (std::size_t end = above; end < ends.size(); ++end)
        if (const auto file = std::string_view(folder).substr(begin, ends[end] - begin);
            writer.has_key(outer->second, file))
          refuse_folder(item.arrays[arrays[inner]], item.arrays[arrays[outer->second]], file);
    }
  }
}

}  // namespace cairn::inline v0::orbax
