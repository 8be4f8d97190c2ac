// in_place.cc -- makes, recognises and removes directories without renaming them.
#include <cairn/orbax/commit/in_place.h>

#include <cairn/error.h>
#include <cairn/io/file.h>
#include <cairn/io/tree/local_folder.h>
#include <cairn/orbax/commit/in_store.h>
#include <cairn/orbax/commit/pending_directory.h>
#include <cairn/orbax/layout/layout.h>
#include <cairn/orbax/layout/metadata.h>

#include <string_view>

namespace cairn::inline v0::orbax {
namespace {

std::string metadata_of(const Directory& parent, const std::string& name) {
  return join(parent.path_of(name), kCheckpointMetadataFile);
}

// Makes readers that do not ask for the marker take the checkpoint for unfinished.
void forget_commit(const Directory& parent, const std::string& name) {
  const std::string file = metadata_of(parent, name);
  if (!file_exists(file)) return;
  const auto text = uncommitted_text(try_call([&] { return read_checkpoint_metadata(file); }));
  if (!text) return;
  // A full disk must not prevent the removal, which makes room.
  (void)try_call([&] {
    write_pending_file(parent.path_of(name), kCheckpointMetadataFile, *text);
    return true;
  });
}

}  // namespace

Directory make_in_place(const Directory& parent, const std::string& name) {
  if (!parent.make(name))
    throw Error(Code::kUnavailable,
                parent.path_of(name) + ": another process has just created it; try again");
  return parent.child(name);
}

bool has_commit_marker(const Directory& parent, const std::string& name) {
  return file_exists(join(parent.path_of(name), kCommitFile));
}

bool is_committed(const Directory& parent, const std::string& name, CommitRule rule) {
  return rule.protocol == CommitProtocol::kAtomicRename || has_commit_marker(parent, name) ||
         (rule.allow_legacy_atomic_rename && !is_unfinished_in_place(parent, name));
}

bool is_unfinished_in_place(const Directory& parent, const std::string& name) {
  return parent.kind(name) == EntryKind::kDirectory &&
         is_unfinished(*LocalFolder::open_once(parent, name));
}

void remove_in_place(const Directory& parent, const std::string& name) {
  if (parent.kind(name) == EntryKind::kAbsent) return;
  for (const std::string_view marker : {kCommitFile, kV1Marker, kDistributedFile})
    remove_file(join(parent.path_of(name), marker));
  forget_commit(parent, name);
  const Directory folder = parent.child(name);
  for (const DirectoryEntry& entry : folder.list())
    if (entry.name != kCheckpointMetadataFile) folder.remove(entry.name);
  // The metadata say that the rest is unfinished, so they go last.
  parent.remove(name);
}

}  // namespace cairn::inline v0::orbax
