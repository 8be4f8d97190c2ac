// commit.h -- a checkpoint's directory is complete or absent: written under a temporary name beside the target, made
// durable, then renamed.
//
//   <target>.orbax-checkpoint-tmp        being written, or left behind by a crash; after a replacement: the old checkpoint
//   <target>.orbax-checkpoint-tmp-old    only where two folders cannot swap names: the old one, until the new one is in place
#pragma once

#include <string>
#include <string_view>

namespace cairn::checkpoint {

inline constexpr std::string_view kSetAsideMark = ".orbax-checkpoint-tmp-old";

class PendingDirectory {
 public:
  // Makes the temporary directory, empty; one that a crash has left is removed first. already_exists if the target is there
  // and may not be replaced.
  PendingDirectory(const std::string& target, bool replace);
  PendingDirectory(const PendingDirectory&) = delete;
  PendingDirectory& operator=(const PendingDirectory&) = delete;
  // Not committed: removes the temporary directory.
  ~PendingDirectory();

  [[nodiscard]] const std::string& path() const { return path_; }      // of the temporary directory
  [[nodiscard]] const std::string& target() const { return target_; }  // absolute

  // Syncs everything and puts it into place. At no moment is there no whole checkpoint, old or new.
  void commit();

 private:
  void replace_target();

  std::string target_;
  std::string path_;
  bool replace_;
  bool committed_ = false;
};

}  // namespace cairn::checkpoint
