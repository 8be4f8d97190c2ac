// source_files.cc -- lists the files that a checkpoint is read from.

#include <cairn/tools/source/source_files.h>

#include <cairn/base/text.h>
#include <cairn/error.h>
#include <cairn/formats/files/bundle_files.h>
#include <cairn/formats/files/output_names.h>
#include <cairn/formats/safetensors/header.h>
#include <cairn/io/directory.h>
#include <cairn/io/file.h>
#include <cairn/io/output_file.h>
#include <cairn/kvstore/folders/resolve.h>

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <vector>

namespace cairn::inline v0 {
namespace {

namespace fs = std::filesystem;

// The path with all links resolved; "" if it does not exist.
fs::path real_path(const fs::path& path) {
  std::error_code error;
  fs::path real = fs::canonical(path, error);
  return error ? fs::path() : real;
}

bool is_below(const fs::path& file, const fs::path& folder) {
  const fs::path real = real_path(folder);
  return !real.empty() &&
         std::mismatch(real.begin(), real.end(), file.begin(), file.end()).first == real.end();
}

// Whether the file lies in the folder, or a link in the folder refers to it. A folder may be large,
// so only links are resolved. Folders behind links are not listed: one may refer to the root of the
// file system.
bool holds(const std::string& folder, const std::string& path) {
  const fs::path file = real_path(path);
  if (file.empty()) return false;
  if (is_below(file, folder)) return true;
  std::error_code error;
  const bool has_more_names = fs::hard_link_count(file, error) > 1 && !error;
  fs::recursive_directory_iterator it(folder, fs::directory_options::skip_permission_denied, error);
  for (; !error && it != fs::recursive_directory_iterator(); it.increment(error)) {
    std::error_code ignored;
    const bool is_link = it->is_symlink(ignored);
    if ((is_link || has_more_names) && is_same_file(it->path().string(), path)) return true;
    if (is_link && it->is_directory(ignored) && is_below(file, it->path())) return true;
  }
  return false;
}

// The file itself and, if it is an index, its shards. The reader has parsed it before, so a file
// that does not parse now has been changed since.
std::vector<std::string> safetensors_files(const std::string& path) {
  std::vector<std::string> files{path};
  if (!path.ends_with(".json")) return files;
  const auto shards = try_call([&] { return safetensors_index_files(FileTree(), path); });
  if (!shards) return files;
  for (const std::string& shard : shards.value())
    files.push_back((fs::path(path).parent_path() / shard).string());
  return files;
}

std::vector<std::string> tensorflow_files(const std::string& prefix) {
  const fs::path folder = parent_of(prefix);
  std::vector<std::string> files{bundle_index_path(prefix), (folder / "checkpoint").string()};
  const std::string name = fs::path(prefix).filename().string();
  for (const std::string& other : names_in(folder.string()))
    if (prefix_of_data(other) == name) files.push_back((folder / other).string());
  return files;
}

// The file by which a checkpoint is opened.
std::string entry_file(const CheckpointInfo& info) {
  return info.format == "tensorflow" ? bundle_index_path(info.path) : info.path;
}

// As role_of_file(), for URLs, which are compared as texts.
FileRole role_in_store(const CheckpointInfo& info, const std::string& url) {
  const std::string from = entry_file(info);
  const bool is_set = is_set_index(from);
  if (url == from) return is_set ? FileRole::kPart : FileRole::kWhole;
  const bool is_state = info.format == "tensorflow" && url == parent_of(from) + "/checkpoint";
  const bool is_of_set = is_set && save_lock_path(url) == save_lock_path(from);
  return is_state || is_of_set || url.starts_with(info.path + "/") ? FileRole::kPart
                                                                   : FileRole::kNone;
}

}  // namespace

FileRole role_of_file(const Checkpoint& checkpoint, const std::string& path) {
  const CheckpointInfo& info = checkpoint.info();
  if (is_store_url(path))
    return is_store_url(info.path) ? role_in_store(info, path) : FileRole::kNone;
  if (is_store_url(info.path) || !file_exists(path)) return FileRole::kNone;
  if (directory_exists(info.path) && info.format != "tensorflow")
    return holds(info.path, path) ? FileRole::kPart : FileRole::kNone;
  const std::vector<std::string> files = info.format == "tensorflow" ? tensorflow_files(info.path)
                                         : info.format == "safetensors"
                                             ? safetensors_files(info.path)
                                             : std::vector<std::string>{info.path};
  if (std::none_of(files.begin(), files.end(),
                   [&](const std::string& file) { return is_same_file(file, path); }))
    return FileRole::kNone;
  return files.size() == 1 ? FileRole::kWhole : FileRole::kPart;
}

void check_outside_source(const Checkpoint& checkpoint, const std::string& path, Written written) {
  const CheckpointInfo& info = checkpoint.info();
  if (is_store_url(info.path)) return;
  if (info.format == "tensorflow" || !directory_exists(info.path)) return;
  if (written == Written::kPath && file_exists(path) && !directory_exists(path)) return;
  std::error_code error;
  const fs::path target = fs::weakly_canonical(path, error);
  if (error || target == real_path(info.path) || !is_below(target, info.path)) return;
  throw Error(Code::kInvalidArgument, path + ": lies in the source checkpoint " + info.path +
                                          "; choose a path outside of it");
}

void check_apart_in_store(const Checkpoint& checkpoint, const std::string& path, Written written) {
  const CheckpointInfo& info = checkpoint.info();
  if (!is_store_url(info.path)) return;
  if (path.starts_with(info.path + "/"))
    throw Error(Code::kInvalidArgument, path + ": lies in the source checkpoint " + info.path +
                                            "; choose a URL outside of it");
  if (written == Written::kFolder && (info.path + "/").starts_with(path + "/"))
    throw Error(Code::kAlreadyExists,
                path + ": holds the source checkpoint " + info.path +
                    ", which would be replaced before all of it is read; choose another name");
  const std::string from = entry_file(info);
  const bool is_safetensors = info.format == "safetensors";
  const std::string to =
      save_lock_path(written == Written::kPath ? path
                     : is_safetensors          ? safetensors_index_path(safetensors_stem(path))
                                               : bundle_index_path(path));
  if (written == Written::kPath && path == from) return;
  if (is_set_index(from) && to == save_lock_path(from))
    throw Error(Code::kAlreadyExists,
                path +
                    ": has the name of the source checkpoint, whose files would be replaced "
                    "before all of them are read; choose another name");
}

void check_not_in(const Checkpoint& checkpoint, const std::string& path) {
  const std::string& from = checkpoint.info().path;
  if (is_store_url(from)) return;
  const bool is_folder = directory_exists(from) && checkpoint.info().format != "tensorflow";
  bool lies_in = is_below(real_path(is_folder ? fs::path(from) : fs::path(parent_of(from))), path);
  std::error_code error;
  fs::recursive_directory_iterator it;
  if (is_folder) it = fs::recursive_directory_iterator(from, error);
  for (; !lies_in && !error && it != fs::recursive_directory_iterator(); it.increment(error)) {
    std::error_code ignored;
    lies_in = it->is_symlink(ignored) && is_below(real_path(it->path()), path);
  }
  if (lies_in)
    throw Error(Code::kInvalidArgument,
                path +
                    ": holds a part of the source checkpoint, and would be removed before that "
                    "is read, because the commit protocol is a commit file; choose another path");
}

void check_no_overlap(const Checkpoint& checkpoint, const std::string& path, Written written) {
  const std::string from = entry_file(checkpoint.info());
  const auto overlaps = [&](const std::string& to) {
    if (role_of_file(checkpoint, to) != FileRole::kNone) return true;
    if (is_store_url(to) != is_store_url(from)) return false;
    if (is_store_url(to)) return (from + "/").starts_with(to + "/") || to.starts_with(from + "/");
    std::error_code error;
    const fs::path target = fs::weakly_canonical(to, error);
    return !error && (is_below(target, from) || is_below(real_path(from), to));
  };
  std::vector<std::string> written_files{path};
  if (written == Written::kFilesBeside)
    written_files.insert(written_files.end(),
                         {bundle_index_path(path), safetensors_index_path(safetensors_stem(path))});
  if (std::ranges::any_of(written_files, overlaps))
    throw Error(Code::kInvalidArgument, path + ": overlaps the source checkpoint " +
                                            checkpoint.info().path + "; choose another path");
}

void check_not_source(const Checkpoint& checkpoint, const std::string& path) {
  if (role_of_file(checkpoint, path) != FileRole::kNone)
    throw Error(Code::kAlreadyExists,
                path + ": is a file of the source checkpoint, so Cairn does not replace it");
}

}  // namespace cairn::inline v0
