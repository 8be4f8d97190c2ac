// pending_directory.cc -- creates temporary directories and gives them their final names.
#include <cairn/orbax/commit/pending_directory.h>

#include <cairn/base/text.h>
#include <cairn/error.h>
#include <cairn/io/atomic_file.h>
#include <cairn/io/file.h>
#include <cairn/orbax/layout/contents.h>
#include <cairn/orbax/layout/layout.h>

#include <utility>

namespace cairn::inline v0::orbax {
namespace {

static_assert(kSetAsideMark.starts_with(kTemporaryMark));

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

std::string PendingDirectory::path_for(const std::string& target) {
  const Names names = split(target);
  return join(names.parent, names.name) + std::string(kTemporaryMark);
}

PendingDirectory::PendingDirectory(const std::string& target, IfExists if_exists,
                                   Durability durability)
    : PendingDirectory(split(target), if_exists, durability) {}

PendingDirectory::PendingDirectory(const Names& names, IfExists if_exists, Durability durability)
    : parent_(open_parent(names.parent)),
      name_(names.name),
      temporary_(names.name + std::string(kTemporaryMark)),
      lock_(parent_.path_of(name_)),
      if_exists_(if_exists),
      durability_(durability) {
  restore_set_aside();
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
  check_only_checkpoint(parent_.child(old), DirectoryRole::kTarget);
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

void PendingDirectory::check_target() const {
  const EntryKind found = parent_.kind(name_);
  if (found == EntryKind::kAbsent) return;
  if (if_exists_ == IfExists::kFail)
    throw Error(Code::kAlreadyExists,
                target() + ": already exists; choose another path, or allow replacing it");
  if (found != EntryKind::kDirectory)
    throw Error(Code::kAlreadyExists,
                target() + ": is " + std::string(entry_kind_text(found)) +
                    "; Cairn replaces only directories, because a checkpoint is a directory");
  check_only_checkpoint(parent_.child(name_), DirectoryRole::kTarget);
}

PendingDirectory::~PendingDirectory() {
  if (committed_ || leave_) return;
  try {
    if (directory_ && parent_.names(temporary_, *directory_)) parent_.remove(temporary_);
  } catch (const Error&) {
    // The error that prevented the commit is more informative.
  }
}

void PendingDirectory::commit(SyncedFiles* synced) {
  if (durability_ != Durability::kUnsynced) sync_tree(path(), synced);
  const CommitSection section;
  // The files were written by path. They are in the created directory only if the path still names
  // it.
  if (!parent_.names(temporary_, *directory_) || !Directory::open(path()).is_same(*directory_))
    throw Error(Code::kFailedPrecondition,
                path() + ": was removed or replaced while Cairn wrote the checkpoint");
  check_target();
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

// Checks again that the directory contains only a checkpoint: other files may have been added since
// the target was checked.
void PendingDirectory::remove_old(const std::string& old, DirectoryRole role) const {
  check_only_checkpoint(parent_.child(old), role);
  parent_.remove(old);
}

void write_pending_file(const std::string& folder, std::string_view name, std::string_view text) {
  AtomicFile file(join(folder, name));
  file.append(as_bytes(text));
  file.commit(Durability::kUnsynced);
}

}  // namespace cairn::inline v0::orbax
