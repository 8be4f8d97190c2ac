// bundle_place.cc -- renames in an order that no crash makes a wrong checkpoint of.
#include <cairn/base/directory.h>
#include <cairn/error.h>
#include <cairn/formats/bundle_place.h>

#include <algorithm>
#include <filesystem>
#include <system_error>

namespace cairn {
namespace {

std::string folder_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : path.substr(0, std::max<std::size_t>(slash, 1));
}

// "00000-of-00001"
bool is_shard_suffix(std::string_view text) {
  const auto digits = [&] {
    const std::size_t count = std::min(text.find_first_not_of("0123456789"), text.size());
    text.remove_prefix(count);
    return count >= 5;
  };
  if (!digits() || !text.starts_with("-of-")) return false;
  text.remove_prefix(4);
  return digits() && text.empty();
}

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
  const std::size_t slash = prefix.rfind('/');
  const std::string folder = slash == std::string::npos ? "" : prefix.substr(0, slash + 1);
  const std::string start = prefix.substr(folder.size()) + ".data-";
  std::vector<std::string> found;
  std::error_code error;
  for (std::filesystem::directory_iterator at(folder.empty() ? "." : folder, error), end; !error && at != end; at.increment(error)) {
    const std::string name = at->path().filename().string();
    if (name.starts_with(start) && is_shard_suffix(std::string_view(name).substr(start.size()))) found.push_back(folder + name);
  }
  if (error) throw Error(Code::kIo, (folder.empty() ? "." : folder) + ": cannot list the folder: " + error.message());
  std::sort(found.begin(), found.end());
  return found;
}

void place_bundle(const std::string& prefix, std::span<AtomicFile* const> files, std::span<const std::string> paths) {
  const std::string& index = paths.back();
  const std::size_t data = files.size() - 1;
  const std::string folder = folder_of(index);
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
