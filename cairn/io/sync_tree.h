// sync_tree.h -- makes many files and folders durable together.
#pragma once

#include <cairn/io/file.h>

#include <cstddef>
#include <deque>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <vector>

namespace cairn::inline v0 {

// Files that share their bytes with other checkpoints, and whether this process has synced them. A
// file is known by its state: if its bytes are on disk, they are so under every name. Safe to use
// from many threads.
class SyncedFiles {
 public:
  // Adds the files of one save. The state of each must change with every later write to it
  // (File::stamp). Forgets those of the oldest save.
  void track(const std::set<FileState>& files);
  // Returns whether the file is tracked and was synced in this state.
  [[nodiscard]] bool has(const FileState& file) const;
  // Notes that files are synced. Those that are not tracked are ignored.
  void note(const std::set<FileState>& files);

 private:
  static constexpr std::size_t kMostSaves = 16;  // each database of a checkpoint counts

  [[nodiscard]] bool is_synced(const FileState& file) const;

  mutable std::mutex mutex_;
  std::deque<std::map<FileState, bool>> saves_;  // the newest first; true: synced
};

// Syncs `path` and every file and folder below it, so that they survive a power loss. Leaves out
// the files that `synced` has, and notes there those that it has synced.
void sync_tree(const std::string& path, SyncedFiles* synced = nullptr);
// As sync_tree, for some files and folders, all of which lie below `path`.
void sync_some(const std::string& path, std::vector<std::string> files,
               const std::vector<std::string>& folders, SyncedFiles* synced = nullptr);

}  // namespace cairn::inline v0
