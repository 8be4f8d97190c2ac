// in_place.h -- checkpoints that are written at their path: CommitProtocol::kCommitMarker.
//
//   <target>/_CHECKPOINT_METADATA   from the first moment with the start time alone, which marks
//                                   the checkpoint as unfinished for readers that do not ask for
//                                   the marker; in the end with the commit time
//   <target>/commit_success.txt     the last file of a save, the first one that a removal takes
#pragma once

#include <cairn/bytes.h>
#include <cairn/io/directory.h>

#include <string>

namespace cairn::inline v0::orbax {

// Makes the directory. Throws unavailable if the name is taken.
Directory make_in_place(const Directory& parent, const std::string& name);

// Which directories count as complete.
struct CommitRule {
  CommitProtocol protocol = CommitProtocol::kAtomicRename;
  bool allow_legacy_atomic_rename = false;  // as PyTreeCheckpointHandlerOptions
};

// Whether the directory has the marker.
bool has_commit_marker(const Directory& parent, const std::string& name);
// Whether a directory with the name of a checkpoint counts as complete.
bool is_committed(const Directory& parent, const std::string& name, CommitRule rule);

// Whether `name` is a directory that a save or a removal in place has left: nothing is
// written in it yet, or it has a start time but no commit time, no handlers and no marker. False if
// nothing is there.
bool is_unfinished_in_place(const Directory& parent, const std::string& name);

// Removes the directory. The marker goes first, so that a kill leaves something unfinished.
// Succeeds if nothing is there.
void remove_in_place(const Directory& parent, const std::string& name);

}  // namespace cairn::inline v0::orbax
