// pending_directory.cc -- creates temporary directories and gives them their final names.
#include <cairn/orbax/commit/pending_directory.h>

#include <cairn/base/cancellation.h>
#include <cairn/base/text.h>
#include <cairn/error.h>
#include <cairn/io/atomic_file.h>
#include <cairn/io/file.h>
#include <cairn/orbax/commit/in_place.h>
#include <cairn/orbax/layout/contents.h>
#include <cairn/orbax/layout/layout.h>

namespace cairn::inline v0::orbax {
namespace {

static_assert(kSetAsideMark.starts_with(kTemporaryMark));

std::string name_while_written(const std::string& name, CommitProtocol protocol) {
  return protocol == CommitProtocol::kCommitMarker ? name : name + std::string(kTemporaryMark);
}

Directory open_parent(const std::string& path) {
  make_directories(path);
  return Directory::open(path);
}

}  // namespace

PendingDirectory::Names PendingDirectory::split(const std::string& target) {
  if (target.empty())
    throw Error(Code::kInvalidArgument, "the path of the checkpoint to be written is empty");
  const std::string full = absolute_path(target);
  if (full == "/")
    throw Error(Code::kInvalidArgument, target + ": the root folder cannot be a checkpoint");
  if (full.find(kTemporaryMark) != std::string::npos)
    throw Error(Code::kInvalidArgument, full + ": a name with '" + std::string(kTemporaryMark) +
                                            "' is reserved for unfinished checkpoints");
  return {parent_of(full), std::string(name_of(full))};
}

std::string PendingDirectory::path_for(const std::string& target, CommitProtocol protocol) {
  const Names names = split(target);
  return join(names.parent, name_while_written(names.name, protocol));
}

PendingDirectory::PendingDirectory(const std::string& target, IfExists if_exists,
                                   Durability durability, CommitProtocol protocol,
                                   ForeignFiles foreign)
    : PendingDirectory(split(target), if_exists, durability, protocol, foreign) {}

PendingDirectory::PendingDirectory(const Names& names, IfExists if_exists, Durability durability,
                                   CommitProtocol protocol, ForeignFiles foreign)
    : parent_(open_parent(names.parent)),
      name_(names.name),
      temporary_(name_while_written(names.name, protocol)),
      lock_(parent_.path_of(name_)),
      if_exists_(if_exists),
      durability_(durability),
      protocol_(protocol),
      foreign_(foreign) {
  restore_set_aside();
  if (is_in_place()) {
    clear_target();
    directory_ = make_in_place(parent_, name_);
    return;
  }
  check_target();
  remove_leftover();
  noted_.emplace(path(), NotedTemporary::Order::kFirst, [&] { return parent_.make(temporary_); });
  if (!noted_->made())
    throw Error(Code::kUnavailable, path() + ": another process has just created it; try again");
  directory_ = parent_.child(temporary_);
}

// After a crash between the two renames of a replacement, restores the old checkpoint.
void PendingDirectory::restore_set_aside() const {
  const std::string old = name_ + std::string(kSetAsideMark);
  if (!is_leftover(old)) return;
  if (parent_.kind(name_) != EntryKind::kAbsent) return remove_old(old, DirectoryRole::kTemporary);
  check_only_checkpoint(parent_.child(old), DirectoryRole::kTarget, foreign_);
  parent_.rename(old, name_);
  parent_.sync();
}

// Returns true if an entry has this name, which only saves to this target use. Throws if it is not
// a directory.
bool PendingDirectory::is_leftover(const std::string& name) const {
  const EntryKind found = parent_.kind(name);
  if (found != EntryKind::kAbsent && found != EntryKind::kDirectory)
    throw Error(Code::kAlreadyExists, parent_.path_of(name) + ": is " +
                                          std::string(entry_kind_text(found)) +
                                          " where a save needs a temporary directory; remove it");
  return found == EntryKind::kDirectory;
}

void PendingDirectory::remove_leftover() const {
  if (!is_leftover(temporary_)) return;
  with_context(
      [&] { return target() + ": the leftovers of an interrupted save cannot be removed"; },
      [&] { remove_old(temporary_, DirectoryRole::kTemporary); });
}

// Makes room for a directory that is written at the target.
void PendingDirectory::clear_target() const {
  const bool unfinished = is_unfinished_in_place(parent_, name_);
  if (!unfinished) check_target();
  if (parent_.kind(name_) == EntryKind::kAbsent) return;
  // The old checkpoint goes before there is a new one, so nothing can be kept.
  const bool keeps = foreign_ == ForeignFiles::kKeepFiles && !unfinished;
  check_only_checkpoint(parent_.child(name_),
                        unfinished ? DirectoryRole::kTemporary : DirectoryRole::kTarget,
                        keeps ? ForeignFiles::kRefuse : foreign_);
  with_context(
      [&] {
        return target() + (unfinished ? ": the leftovers of an interrupted save cannot be removed"
                                      : ": the older checkpoint cannot be removed");
      },
      [&] { remove_in_place(parent_, name_); });
}

std::vector<std::string> PendingDirectory::check_target() const {
  const EntryKind found = parent_.kind(name_);
  if (found == EntryKind::kAbsent) return {};
  if (if_exists_ == IfExists::kFail)
    throw Error(Code::kAlreadyExists, target() +
                                          ": already exists; choose another path, or allow "
                                          "replacing it with --force (if_exists)");
  if (found != EntryKind::kDirectory)
    throw Error(Code::kAlreadyExists,
                target() + ": is " + std::string(entry_kind_text(found)) +
                    "; Cairn replaces only directories, because a checkpoint is a directory");
  return check_replaceable(parent_.child(name_));
}

std::vector<std::string> PendingDirectory::check_replaceable(const Directory& directory) const {
  if (foreign_ == ForeignFiles::kKeepFiles) return foreign_files(directory);
  check_only_checkpoint(directory, DirectoryRole::kTarget, foreign_);
  return {};
}

PendingDirectory::~PendingDirectory() {
  if (committed_ || leave_) return;
  try {
    if (!directory_ || !parent_.names(temporary_, *directory_)) return;
    is_in_place() ? remove_in_place(parent_, name_) : parent_.remove(temporary_);
  } catch (const Error&) {
    // The error that prevented the commit is more informative.
  }
}

// The files were written by path. They are in the created directory only if the path still names
// it.
void PendingDirectory::check_same() const {
  if (!parent_.names(temporary_, *directory_) || !Directory::open(path()).is_same(*directory_))
    throw Error(Code::kFailedPrecondition,
                path() + ": was removed or replaced while Cairn wrote the checkpoint");
}

void PendingDirectory::write_record(std::string_view name, std::string_view text) {
  write_pending_file(path(), name, text);
}

void PendingDirectory::commit(const std::function<void()>& write_metadata, SyncedFiles* synced) {
  if (is_in_place()) return commit_in_place(write_metadata, synced);
  write_metadata();
  write_pending_file(path(), kCommitFile, commit_text(target()));
  commit(synced);
}

void PendingDirectory::commit_in_place(const std::function<void()>& write_metadata,
                                       SyncedFiles* synced) {
  const bool syncs = durability_ != Durability::kUnsynced;
  // Readers that do not ask for the marker take the checkpoint for complete once it has metadata.
  if (syncs) sync_tree(path(), synced);
  check_same();
  throw_if_cancelled();
  const CancellationScope too_late{Cancellation()};
  write_metadata();
  if (syncs) sync_some(path(), {join(path(), kCheckpointMetadataFile)}, {path()});
  write_pending_file(path(), kCommitFile, commit_text(target()));
  committed_ = true;
  if (!syncs) return;
  with_context([&] { return target() + ": is in place, but a power failure may lose it"; },
               [&] {
                 sync_some(path(), {join(path(), kCommitFile)}, {path()});
                 parent_.sync();
               });
}

void PendingDirectory::commit(SyncedFiles* synced) {
  if (durability_ != Durability::kUnsynced) sync_tree(path(), synced);
  throw_if_cancelled();
  const CancellationScope too_late{Cancellation()};
  const CommitSection section;
  check_same();
  keep_files(check_target());
  std::string old;
  if (parent_.kind(name_) != EntryKind::kAbsent)
    old = replace_target();
  else
    parent_.rename(temporary_, name_);
  committed_ = true;  // from here on the path names the new checkpoint, even if a later step fails
  noted_.reset();
  if (durability_ != Durability::kUnsynced)
    with_context([&] { return target() + ": is in place, but a power failure may lose it"; },
                 [&] { parent_.sync(); });
  if (!old.empty())
    with_context([&] { return target() + ": is in place, but the old one is still there"; },
                 [&] { remove_old(old, DirectoryRole::kTarget); });
}

std::string PendingDirectory::replace_target() {
  // After the swap, the temporary name refers to the old checkpoint.
  if (parent_.swap(temporary_, name_)) return temporary_;
  std::string old = name_ + std::string(kSetAsideMark);
  parent_.rename(name_, old);
  try {
    parent_.rename(temporary_, name_);
  } catch (const Error&) {
    if (try_call([&] { return parent_.rename(old, name_), true; })) throw;
    throw Error(Code::kIo, target() +
                               ": could not be replaced or put back; the old checkpoint is " +
                               parent_.path_of(old) + ", and the next save puts it back");
  }
  return old;
}

// Files that get their second name before the swap exist at every moment, also after a crash.
void PendingDirectory::keep_files(const std::vector<std::string>& names) const {
  if (names.empty()) return;
  const Directory target = parent_.child(name_);
  // The handler may have written a file of any name: the new one takes its place.
  const bool has_any_name = is_one_file(target);
  for (const std::string& name : names) {
    if (has_any_name && directory_->kind(name) == EntryKind::kFile) continue;
    const std::string reason = link_file(target.descriptor(), name, directory_->path_of(name));
    if (!reason.empty())
      throw Error(Code::kAlreadyExists,
                  target.path_of(name) +
                      ": does not belong to the checkpoint that is replaced, and "
                      "cannot be kept beside the new one: " +
                      reason);
  }
  if (durability_ != Durability::kUnsynced) directory_->sync();
}

// Checks again that the directory contains only a checkpoint: other files may have been added since
// the target was checked.
void PendingDirectory::remove_old(const std::string& old, DirectoryRole role) const {
  const Directory directory = parent_.child(old);
  if (role == DirectoryRole::kTemporary) {
    check_only_checkpoint(directory, role, foreign_);
  } else {
    for (const std::string& name : check_replaceable(directory))
      if (parent_.child(name_).kind(name) == EntryKind::kAbsent)
        throw Error(
            Code::kAlreadyExists,
            directory.path_of(name) + ": was added while the new checkpoint was put into place");
  }
  parent_.remove(old);
}

void write_pending_file(const std::string& folder, std::string_view name, std::string_view text) {
  write_file_atomically(join(folder, name), as_bytes(text), Durability::kUnsynced);
}

}  // namespace cairn::inline v0::orbax
