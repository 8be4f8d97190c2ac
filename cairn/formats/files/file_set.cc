// file_set.cc -- renames in such an order that a crash never leaves an inconsistent set.
#include <cairn/formats/files/file_set.h>

#include <cairn/base/text.h>
#include <cairn/error.h>
#include <cairn/formats/files/bundle_files.h>
#include <cairn/io/atomic_file.h>
#include <cairn/io/directory.h>
#include <cairn/io/output_file.h>
#include <cairn/io/system_call.h>
#include <cairn/io/temporary_name.h>

#include <algorithm>
#include <filesystem>
#include <system_error>

namespace cairn::inline v0 {
namespace {

void write_and_finish(const FileSet& set, AtomicFile& index, bool interim) {
  set.write_index(index, interim);
  index.finish();
}

// Puts the data files under these names, then the index. On failure it removes all of them.
void commit_all(const FileSet& set, const std::vector<std::string>& names, AtomicFile& index,
                IfExists if_exists) {
  std::size_t placed = 0;
  try {
    for (; placed < names.size(); ++placed) set.place(placed, names[placed]);
    sync_path(parent_of(set.index));  // the index must never be durable before its data files
    index.commit_output(if_exists, Durability::kUnsynced);
  } catch (const Error&) {
    for (std::size_t i = 0; i < placed; ++i)
      (void)try_call([&] { return remove_file(names[i]), true; });
    throw;
  }
  sync_parent(set.index);
}

}  // namespace

void move_to_final_names(const FileSet& set) {
  for (std::size_t i = 0; i < set.paths.size(); ++i) name_also(set.interim[i], set.paths[i]);
  sync_path(parent_of(set.index));
  AtomicFile index(set.index);
  write_and_finish(set, index, false);
  index.commit_output(IfExists::kReplace);
  for (const std::string& path : set.interim) remove_file(path);
}

std::function<void(std::size_t i, const std::string& path)> commit_each(
    std::span<AtomicFile* const> files, IfExists if_exists) {
  return [=](std::size_t i, const std::string& path) {
    files[i]->commit_output_as(path, if_exists, Durability::kUnsynced);
  };
}

void name_also(const std::string& from, const std::string& path) {
  check_output(path, IfExists::kReplace);
  // rename does nothing for two links to one file and would leave the temporary
  if (is_same_file(from, path)) return;
  // only the holder of the SaveLock creates a file of this name
  const std::string temporary = temporary_name(path, "1");
  remove_file(temporary);
  std::error_code error;
  const NotedTemporary noted(temporary, NotedTemporary::Order::kFirst, [&] {
    std::filesystem::create_hard_link(from, temporary, error);
    if (!error) return true;
    error.clear();  // the file system has no hard links: copy the bytes
    std::filesystem::copy_file(from, temporary, error);
    if (!error) sync_path(temporary);
    return !error;
  });
  if (!error) {
    check_output(path, IfExists::kReplace);
    std::filesystem::rename(temporary, path, error);
  }
  if (!error) return;
  (void)try_call([&] { return remove_file(temporary), true; });
  fail_file_call(path, "write the bytes of " + from + " to it", error.value(), Code::kIo);
}

void place_set(const FileSet& set, IfExists if_exists) {
  const CommitSection section;
  const auto is_taken = [](const std::string& path) { return file_exists(path); };
  const bool in_the_way = if_exists == IfExists::kReplace && file_exists(set.index) &&
                          std::ranges::any_of(set.paths, is_taken);
  for (const std::string& path : set.paths) check_output(path, if_exists);
  AtomicFile index(set.index);
  write_and_finish(set, index, in_the_way);
  if (!in_the_way) return commit_all(set, set.paths, index, if_exists);
  commit_all(set, set.interim, index, if_exists);
  with_context([&] { return set.index + ": is in place, but its data files have wrong names"; },
               [&] { move_to_final_names(set); });
}

}  // namespace cairn::inline v0
