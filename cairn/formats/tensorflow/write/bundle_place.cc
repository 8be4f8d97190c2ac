// bundle_place.cc -- finds the data files of a prefix in its folder.
#include <cairn/formats/tensorflow/write/bundle_place.h>

#include <cairn/base/text.h>
#include <cairn/error.h>
#include <cairn/formats/files/bundle_files.h>
#include <cairn/formats/files/file_set.h>
#include <cairn/io/atomic_file.h>
#include <cairn/io/directory.h>
#include <cairn/io/file.h>

#include <algorithm>
#include <filesystem>

namespace cairn::inline v0 {
namespace {

// A number of data files above `count` that no checkpoint under the prefix has. With this number in
// their names, new files cannot collide with old ones.
std::size_t free_shard_count(const std::string& prefix, std::size_t count) {
  const std::vector<std::string> files = bundle_data_files(prefix);
  const auto is_taken = [&](std::size_t n) {
    const std::string ending =
        bundle_data_path("", 0, n).substr(std::string_view(".data-00000").size());
    return std::ranges::any_of(files,
                               [&](const std::string& file) { return file.ends_with(ending); });
  };
  do ++count;
  while (is_taken(count));
  return count;
}

void remove_other_data_files(const std::string& prefix, const std::vector<std::string>& paths) {
  with_context(
      [&] { return prefix + ": is in place, but a data file of the previous checkpoint remains"; },
      [&] {
        for (const std::string& old : bundle_data_files(prefix))
          if (std::ranges::find(paths, old) == paths.end() &&
              std::filesystem::is_regular_file(std::filesystem::symlink_status(old)))
            remove_file(old);
      });
}

}  // namespace

std::vector<std::string> bundle_data_files(const std::string& prefix) {
  const std::string folder(folder_prefix(prefix));
  std::vector<std::string> found;
  for (const std::string& name : names_in(parent_of(prefix)))
    if (prefix_of_data(folder + name) == prefix) found.push_back(folder + name);
  return found;
}

void place_bundle(const std::string& prefix, const FinishedBundle& bundle, IfExists if_exists) {
  FileSet set{.paths = {},
              .interim = {},
              .index = bundle_index_path(prefix),
              .place = bundle.place,
              .write_index = {}};
  const std::size_t interim_count = free_shard_count(prefix, bundle.files);
  for (std::size_t i = 0; i < bundle.files; ++i) {
    set.paths.push_back(bundle_data_path(prefix, i, bundle.files));
    set.interim.push_back(bundle_data_path(prefix, i, interim_count));
  }
  set.write_index = [&](AtomicFile& file, bool interim) {
    bundle.write_index(file, interim ? interim_count : bundle.files);
  };
  place_set(set, if_exists);
  if (if_exists == IfExists::kReplace) remove_other_data_files(prefix, set.paths);
}

}  // namespace cairn::inline v0
