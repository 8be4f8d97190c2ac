// step_removal.cc -- takes a step's name away, and then its files.
#include <cairn/orbax/manager/step_removal.h>

#include <cairn/io/save_lock.h>
#include <cairn/orbax/commit/pending_directory.h>
#include <cairn/orbax/layout/contents.h>
#include <cairn/orbax/layout/layout.h>

namespace cairn::inline v0::orbax {
namespace {

// Renames the step to the name of a leftover, which it returns.
std::string take_name(const Directory& folder, const std::string& name, ForeignFiles foreign) {
  check_step_removable(folder, name, foreign);
  std::string leftover = name + std::string(kRemovedMark);
  if (folder.kind(leftover) != EntryKind::kAbsent) {
    check_only_checkpoint(folder.child(leftover), DirectoryRole::kTemporary, foreign);
    folder.remove(leftover);
  }
  folder.rename(name, leftover);
  return leftover;
}

// Checks again that the folder holds only a checkpoint: other files may have been added since its
// step was checked. If there are any, the step gets its name back.
void remove_leftover(const Directory& folder, const std::string& leftover, const std::string& name,
                     ForeignFiles foreign) {
  try {
    check_only_checkpoint(folder.child(leftover), DirectoryRole::kTarget, foreign);
  } catch (const Error&) {
    (void)try_call([&] { return folder.rename(leftover, name), true; });
    throw;
  }
  folder.remove(leftover);
}

void remove_temporary(const Directory& root, const std::string& name, const std::string& step) {
  const SaveLock lock(root.path_of(step));
  if (root.kind(name) == EntryKind::kAbsent) return;
  check_only_checkpoint(root.child(name), DirectoryRole::kTemporary);
  root.remove(name);
}

void remove_unfinished(const Directory& root, const std::string& step) {
  const SaveLock lock(root.path_of(step));
  if (has_commit_marker(root, step) || root.kind(step) == EntryKind::kAbsent) return;
  if (!is_unfinished_in_place(root, step))
    throw Error(Code::kFailedPrecondition,
                root.path_of(step) + ": has no " + std::string(kCommitFile) +
                    ", but may be complete: a save that renames it may have written it. Remove it "
                    "or add that file");
  check_only_checkpoint(root.child(step), DirectoryRole::kTemporary);
  remove_in_place(root, step);
}

}  // namespace

void check_step_removable(const Directory& root, const std::string& name, ForeignFiles foreign) {
  const EntryKind kind = root.kind(name);
  if (kind != EntryKind::kDirectory)
    throw Error(Code::kAlreadyExists, root.path_of(name) + ": is " +
                                          std::string(entry_kind_text(kind)) +
                                          ", not a checkpoint, and is not removed");
  check_only_checkpoint(root.child(name), DirectoryRole::kTarget, foreign);
}

void remove_step(const Directory& root, const std::string& name, CommitProtocol protocol,
                 ForeignFiles foreign) {
  if (root.kind(name) == EntryKind::kAbsent) return;
  const SaveLock lock(root.path_of(name));
  if (root.kind(name) == EntryKind::kAbsent) return;
  if (protocol == CommitProtocol::kCommitMarker) {
    check_step_removable(root, name, foreign);
    remove_in_place(root, name);
  } else {
    remove_leftover(root, take_name(root, name, foreign), name, foreign);
  }
  root.sync();
}

void set_step_aside(const Directory& root, const std::string& name, const std::string& subfolder,
                    ForeignFiles foreign) {
  if (root.kind(name) == EntryKind::kAbsent) return;
  const SaveLock lock(root.path_of(name));
  if (root.kind(name) == EntryKind::kAbsent) return;
  check_step_removable(root, name, foreign);
  // each level of "a/b"
  for (std::size_t at = subfolder.find('/', 1); at != std::string::npos;
       at = subfolder.find('/', at + 1))
    (void)root.make(subfolder.substr(0, at));
  (void)root.make(subfolder);
  const Directory aside = root.child(subfolder);
  std::string older;
  if (aside.kind(name) != EntryKind::kAbsent) older = take_name(aside, name, foreign);
  root.move(name, aside, name);
  aside.sync();
  root.sync();
  if (!older.empty()) remove_leftover(aside, older, name, foreign);
}

void remove_leftovers(const Directory& root, const StepNameFormat& format, CommitRule rule,
                      const std::function<void(const Error&)>& left) {
  for (const DirectoryEntry& entry : root.list()) {
    const std::size_t mark = entry.name.find(kTemporaryMark);
    const std::string step = entry.name.substr(0, mark);
    if (entry.kind != EntryKind::kDirectory || !parse_step_name(step, format) ||
        entry.name == step + std::string(kSetAsideMark))
      continue;
    if (mark == std::string::npos && is_committed(root, step, rule)) continue;
    auto removed = try_call([&] {
      if (mark == std::string::npos)
        remove_unfinished(root, step);
      else
        remove_temporary(root, entry.name, step);
      return true;
    });
    if (!removed) left(removed.error());
  }
}

}  // namespace cairn::inline v0::orbax
