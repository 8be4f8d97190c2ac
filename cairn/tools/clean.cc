// clean.cc -- what crashes have left beside and in a folder of checkpoints.
#include <cairn/tools.h>

#include <cairn/base/directory.h>
#include <cairn/base/file.h>
#include <cairn/base/json.h>
#include <cairn/checkpoint/commit.h>
#include <cairn/checkpoint/layout.h>
#include <cairn/formats/bundle_files.h>

#include <filesystem>

namespace cairn {
namespace {

namespace fs = std::filesystem;

bool is_leftover(std::string_view name) { return name.find(checkpoint::kTemporaryMark) != std::string_view::npos; }

std::uint64_t bytes_below(const std::string& path) {
  std::error_code error;
  if (fs::is_regular_file(path, error)) return fs::file_size(path, error);
  std::uint64_t bytes = 0;
  for (fs::recursive_directory_iterator at(path, error), end; !error && at != end; at.increment(error))
    if (std::error_code ignored; at->is_regular_file(ignored)) bytes += at->file_size(ignored);
  return bytes;
}

// Leftovers in `folder`, and in the folders in it as far as `depth` goes: steps have items.
void find_inside(const std::string& folder, int depth, std::vector<std::string>& found) {
  const checkpoint::Listing listing = checkpoint::list_directory(folder);
  for (const auto& name : listing.files)
    if (is_temporary_name(name)) found.push_back(checkpoint::join(folder, name));
  for (const auto& name : listing.folders) {
    const std::string path = checkpoint::join(folder, name);
    if (is_leftover(name))
      found.push_back(path);
    else if (depth > 0)
      find_inside(path, depth - 1, found);
  }
}

// Whether a file was to become `name`, or one of the files of the TensorFlow checkpoint of that prefix.
bool is_leftover_of(const std::string& file, const std::string& name) {
  if (is_temporary_of(file, name)) return true;
  if (!file.starts_with(name + ".")) return false;
  const std::string target = file.substr(0, file.find('.', name.size() + 1));
  return is_temporary_of(file, target) && (target == bundle_index_path(name) || prefix_of_data(target) == name);
}

// Those of the checkpoint that is, or was to be, at `path`.
void find_beside(const std::string& path, std::vector<std::string>& found) {
  const fs::path full = absolute_path(path);
  const std::string name = full.filename().string();
  if (name.empty()) return;
  if (is_leftover(name) && directory_exists(path)) return found.push_back(full.string());
  const checkpoint::Listing listing = checkpoint::list_directory(full.parent_path().string());
  for (const auto& other : listing.folders)
    if (other.starts_with(name + std::string(checkpoint::kTemporaryMark))) found.push_back(checkpoint::join(listing.path, other));
  for (const auto& other : listing.files)
    if (is_leftover_of(other, name)) found.push_back(checkpoint::join(listing.path, other));
}

}  // namespace

std::vector<CleanedPath> clean(const std::string& path, CleanMode mode) {
  constexpr int kDepth = 2;  // a root's steps, their items
  std::vector<std::string> found;
  find_beside(path, found);
  const bool beside = !found.empty();
  if (directory_exists(path) && !is_leftover(fs::path(path).filename().string()))
    find_inside(path, kDepth, found);
  else if (!beside)
    throw Error(Code::kNotFound, path + ": no such folder, and no leftover of a checkpoint of that name");
  std::vector<CleanedPath> cleaned;
  for (const std::string& leftover : found) {
    CleanedPath& done = cleaned.emplace_back();
    done.path = leftover;
    done.bytes = bytes_below(leftover);
    const std::string target = leftover.substr(0, leftover.rfind(checkpoint::kTemporaryMark));
    done.restored = leftover.ends_with(checkpoint::kSetAsideMark) && !file_exists(target);
    if (mode == CleanMode::kShow) continue;
    if (done.restored) {
      rename_tree(leftover, target);
      sync_parent(target);
    } else {
      remove_tree(leftover);
    }
  }
  return cleaned;
}

std::string clean_json(const std::vector<CleanedPath>& cleaned) {
  JsonArray list;
  for (const auto& c : cleaned) list.push_back(JsonObject{{"path", c.path}, {"bytes", c.bytes}, {"restored", c.restored}});
  return to_text(Json(std::move(list)), JsonStyle::kPretty) + "\n";
}

}  // namespace cairn
