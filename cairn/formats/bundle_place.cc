// bundle_place.cc -- renames in an order that no crash makes a wrong checkpoint of.
#include <cairn/base/directory.h>
#include <cairn/error.h>
#include <cairn/formats/bundle_files.h>
#include <cairn/formats/bundle_place.h>

#include <algorithm>
#include <filesystem>
#include <system_error>

namespace cairn {
namespace {

void put_back(const std::string& path, const Bytes& bytes) {
  AtomicFile file(path);
  file.append(ByteView(bytes));
  file.commit();
}

void remove_others(const std::string& prefix, std::span<const std::string> paths) {
  in([&] { return prefix + ": is in place, but a data file of the checkpoint that was there before is, too"; },
     [&] {
       for (const std::string& old : bundle_data_files(prefix))
         if (std::find(paths.begin(), paths.end(), old) == paths.end()) remove_tree(old);
     });
}

}  // namespace

std::vector<std::string> bundle_data_files(const std::string& prefix) {
  const std::string folder = prefix.substr(0, prefix.rfind('/') + 1);
  std::vector<std::string> found;
  std::error_code error;
  for (std::filesystem::directory_iterator at(bundle_folder(prefix), error), end; !error && at != end; at.increment(error)) {
    std::string path = folder + at->path().filename().string();
    if (prefix_of_data(path) == prefix) found.push_back(std::move(path));
  }
  if (error) throw Error(Code::kIo, bundle_folder(prefix) + ": cannot list the folder: " + error.message());
  std::sort(found.begin(), found.end());
  return found;
}

void place_bundle(const std::string& prefix, std::span<AtomicFile* const> files, std::span<const std::string> paths) {
  const std::string& index = paths.back();
  const std::size_t data = files.size() - 1;
  const std::string folder = bundle_folder(index);
  const bool in_the_way = std::any_of(paths.begin(), paths.begin() + static_cast<std::ptrdiff_t>(data), file_exists);
  const Bytes old = in_the_way && file_exists(index) ? read_file(index) : Bytes();
  if (!old.empty()) {
    remove_tree(index);
    sync_path(folder);
  }
  try {
    for (std::size_t i = 0; i < data; ++i) files[i]->commit(Durability::kUnsynced);
    sync_path(folder);  // no index before its files, whatever happens
    files[data]->commit(Durability::kUnsynced);
  } catch (const Error&) {
    const bool changed = data > 0 && files[0]->committed();
    for (std::size_t i = 0; i < data; ++i)
      if (files[i]->committed()) (void)try_call([&] { return remove_tree(paths[i]), true; });
    if (!changed && !old.empty()) (void)try_call([&] { return put_back(index, old), true; });
    throw;
  }
  sync_parent(index);
  remove_others(prefix, paths);
}

}  // namespace cairn
