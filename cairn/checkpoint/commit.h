// commit.h -- a checkpoint's directory is complete or absent: written under a temporary name beside the target, made
// durable, then renamed.
//
//   <target>.orbax-checkpoint-tmp        being written, or left behind by a crash; after a replacement: the old checkpoint
//   <target>.orbax-checkpoint-tmp-old    only where two folders cannot swap names: the old one, until the new one is in place
#pragma once

#include <cairn/types.h>

#include <string>
#include <string_view>

namespace cairn::checkpoint {

inline constexpr std::string_view kSetAsideMark = ".orbax-checkpoint-tmp-old";

class PendingDirectory {
 public:
  // Makes the temporary directory, empty; one that a crash has left is removed first. already_exists if the target is there
  // and may not be replaced.
  PendingDirectory(const std::string& target, bool replace, Durability durability = Durability::kSynced);
  PendingDirectory(const PendingDirectory&) = delete;
  PendingDirectory& operator=(const PendingDirectory&) = delete;
  // Not committed: removes the temporary directory, unless it is to be left.
  ~PendingDirectory();

  // The temporary directory of that target, absolute. Throws as the constructor.
  static std::string path_for(const std::string& target);

  [[nodiscard]] const std::string& path() const { return path_; }      // of the temporary directory
  [[nodiscard]] const std::string& target() const { return target_; }  // absolute

  // If it is not committed, it stays as it is: others may be writing there still. The next one for the same target removes it.
  void leave_if_not_committed() { leave_ = true; }
  // It goes after all.
  void remove_if_not_committed() { leave_ = false; }
  // Syncs everything (unless it need not last) and puts it into place. At no moment is there no whole checkpoint, old or new. An
  // error says "in place" if the new one is.
  void commit();

 private:
  // Where the old checkpoint is now.
  std::string replace_target();

  std::string target_;
  std::string path_;
  bool replace_;
  Durability durability_;
  bool committed_ = false;
  bool leave_ = false;
};

// A small file in a pending directory, which is synced as a whole later.
void write_pending_file(const std::string& folder, std::string_view name, std::string_view text);

}  // namespace cairn::checkpoint
