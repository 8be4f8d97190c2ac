// commit.h -- a checkpoint's directory is complete or absent: written under a temporary name beside
// the target, made durable, then renamed.
//
//   <target>.cairn-tmp-0                 locked while a save to the target is under way
//   (base/save_lock.h) <target>.orbax-checkpoint-tmp        being written, or left behind by a
//   crash; after a replacement: the old checkpoint <target>.orbax-checkpoint-tmp-old    only where
//   two folders cannot swap names: the old one, until the new one is in place
#pragma once

#include <cairn/io/directory.h>
#include <cairn/io/save_lock.h>
#include <cairn/orbax/layout/contents.h>
#include <cairn/types.h>

#include <optional>
#include <string>
#include <string_view>

namespace cairn::orbax {

inline constexpr std::string_view kSetAsideMark = ".orbax-checkpoint-tmp-old";

// The target's directory is resolved once, and everything is named relative to it from then on.
class PendingDirectory {
 public:
  // Makes the temporary directory, empty; one that a crash has left is removed first.
  // already_exists if something has the target's name and may not be replaced: ever, if it is not a
  // checkpoint alone (contents.h). unavailable if another save to the target is under way.
  PendingDirectory(const std::string& target, IfExists if_exists,
                   Durability durability = Durability::kSynced);
  PendingDirectory(const PendingDirectory&) = delete;
  PendingDirectory& operator=(const PendingDirectory&) = delete;
  // Not committed: removes the temporary directory, unless it is to be left.
  ~PendingDirectory();

  // The temporary directory of that target, absolute. Throws as the constructor.
  static std::string path_for(const std::string& target);

  // of the temporary directory
  [[nodiscard]] std::string path() const { return parent_.path_of(temporary_); }
  [[nodiscard]] std::string target() const { return parent_.path_of(name_); }  // absolute

  // If it is not committed, it stays as it is: others may be writing there still. The next one for
  // the same target removes it.
  void leave_if_not_committed() { leave_ = true; }
  // It goes after all.
  void remove_if_not_committed() { leave_ = false; }
  // Syncs everything (unless it need not last) and puts it into place. At no moment is there no
  // whole checkpoint, old or new. Throws as the constructor for what has taken the target's name
  // meanwhile. An error says "in place" if the new one is.
  void commit();

 private:
  struct Names {
    std::string parent, name;
  };
  static Names split(const std::string& target);
  PendingDirectory(const Names& names, IfExists if_exists, Durability durability);

  void restore_set_aside() const;
  void remove_leftover() const;
  [[nodiscard]] bool is_leftover(const std::string& name) const;
  void check_target() const;
  // The name that the old checkpoint has now.
  [[nodiscard]] std::string replace_target();
  void remove_old(const std::string& old, DirectoryRole role) const;

  Directory parent_;
  std::string name_;
  std::string temporary_;
  SaveLock lock_;
  IfExists if_exists_;
  Durability durability_;
  std::optional<NotedTemporary> noted_;
  std::optional<Directory> directory_;  // the temporary one
  bool committed_ = false;
  bool leave_ = false;
};

// A small file in a pending directory, which is synced as a whole later.
void write_pending_file(const std::string& folder, std::string_view name, std::string_view text);

}  // namespace cairn::orbax
