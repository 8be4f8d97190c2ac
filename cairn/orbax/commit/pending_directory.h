// pending_directory.h -- makes a checkpoint's directory appear complete or not at all. The save
// writes it under a temporary name beside the target, makes it durable, and then renames it. With
// CommitProtocol::kCommitMarker (in_place.h) it writes it at the target, makes it durable, and then
// adds the marker.
//
//   .<target>.cairn-tmp-0                locked while a save to the target is under way
//                                        (io/save_lock.h)
//   <target>.orbax-checkpoint-tmp        being written, or left behind by a crash; after a
//                                        replacement: the old checkpoint
//   <target>.orbax-checkpoint-tmp-old    only where two folders cannot swap names: the old one,
//                                        until the new one is in place
#pragma once

#include <cairn/io/directory.h>
#include <cairn/io/save_lock.h>
#include <cairn/orbax/commit/pending_place.h>
#include <cairn/orbax/layout/contents.h>
#include <cairn/types.h>

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cairn::inline v0::orbax {

inline constexpr std::string_view kSetAsideMark = ".orbax-checkpoint-tmp-old";

// The temporary directory of one save. The target's parent directory is resolved once, and all
// names are relative to it from then on.
class PendingDirectory final : public PendingPlace {
 public:
  // Makes an empty temporary directory. If a crash has left one, it is removed first. Throws
  // already_exists if the target exists and may not be replaced; a target that contains anything
  // other than a checkpoint (contents.h) may only be replaced if `foreign` allows it. Throws
  // unavailable if another save to the target is in progress.
  PendingDirectory(const std::string& target, IfExists if_exists,
                   Durability durability = Durability::kSynced,
                   CommitProtocol protocol = CommitProtocol::kAtomicRename,
                   ForeignFiles foreign = ForeignFiles::kRefuse);
  // Removes the temporary directory if it is not committed, unless leave_if_not_committed() was
  // called.
  ~PendingDirectory() override;

  // Returns the absolute path of the directory in which a checkpoint is written. Throws as the
  // constructor does for an invalid target.
  static std::string path_for(const std::string& target, CommitProtocol protocol);

  // The absolute path of the directory that is written.
  [[nodiscard]] std::string path() const { return parent_.path_of(temporary_); }
  [[nodiscard]] OutputFolder folder() const override { return OutputFolder(path()); }
  [[nodiscard]] std::string target() const override { return parent_.path_of(name_); }
  [[nodiscard]] bool is_in_place() const override {
    return protocol_ == CommitProtocol::kCommitMarker;
  }
  void leave_if_not_committed() override { leave_ = true; }
  void remove_if_not_committed() override { leave_ = false; }
  void write_record(std::string_view name, std::string_view text) override;
  // Writes what is missing, and then as commit() or commit_in_place().
  void commit(const std::function<void()>& write_metadata, SyncedFiles* synced) override;
  // Syncs everything (unless the durability is kUnsynced) and puts the directory into place. At
  // every moment a whole checkpoint exists, the old or the new one. If something has taken the
  // target's name in the meantime, throws as the constructor does. The message of an error says "in
  // place" if the new checkpoint is in place. `synced` as in sync_tree().
  void commit(SyncedFiles* synced = nullptr);
  // The same for a directory that is written at the target. Calls `write_metadata` when everything
  // else is durable, and writes the marker when the metadata are, too.
  void commit_in_place(const std::function<void()>& write_metadata, SyncedFiles* synced = nullptr);

 private:
  struct Names {
    std::string parent, name;
  };
  // Splits the target into parent and name. Throws invalid_argument for an unusable path.
  static Names split(const std::string& target);
  PendingDirectory(const Names& names, IfExists if_exists, Durability durability,
                   CommitProtocol protocol, ForeignFiles foreign);

  void restore_set_aside() const;
  void remove_leftover() const;
  [[nodiscard]] bool is_leftover(const std::string& name) const;
  // Throws if the directory may not be replaced. Returns the names of the foreign files that are
  // kept; only kKeepFiles keeps any.
  [[nodiscard]] std::vector<std::string> check_replaceable(const Directory& directory) const;
  // The same for the target, which need not exist.
  std::vector<std::string> check_target() const;
  // Gives these files of the target a second name in the new checkpoint.
  void keep_files(const std::vector<std::string>& names) const;
  // Puts the new checkpoint into place. Returns the name that the old checkpoint has now.
  [[nodiscard]] std::string replace_target();
  void remove_old(const std::string& old, DirectoryRole role) const;
  void clear_target() const;
  void check_same() const;

  Directory parent_;
  std::string name_;
  std::string temporary_;
  SaveLock lock_;
  IfExists if_exists_;
  Durability durability_;
  CommitProtocol protocol_;
  ForeignFiles foreign_;
  std::optional<NotedTemporary> noted_;
  std::optional<Directory> directory_;  // the open temporary directory
  bool committed_ = false;
  bool leave_ = false;
};

// Writes a small file to a pending directory. The file is not synced here: commit() syncs the whole
// directory later.
void write_pending_file(const std::string& folder, std::string_view name, std::string_view text);

}  // namespace cairn::inline v0::orbax
