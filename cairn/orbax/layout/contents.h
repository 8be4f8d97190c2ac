// contents.h -- checks that a directory contains a checkpoint and nothing else. Cairn replaces or
// removes a directory only if this check passes.
#pragma once

#include <cairn/bytes.h>
#include <cairn/io/directory.h>
#include <cairn/io/tree/folder_handle.h>

#include <cstdint>
#include <string>
#include <vector>

namespace cairn::inline v0::orbax {

// kTarget: a finished or unfinished checkpoint, or an empty directory. The top level of a
// checkpoint must identify it: it must contain one of `_METADATA`, `_CHECKPOINT_METADATA`,
// `orbax.checkpoint`, `manifest.ocdbt`, `ocdbt.process_*`, the msgpack file `checkpoint`, or a file
// of a Distributed Checkpoint of PyTorch.
// kTemporary: a directory whose name marks it as unfinished; any part of the checkpoint may be
// missing.
enum class DirectoryRole : std::uint8_t { kTarget, kTemporary };

// Throws already_exists if the directory contains anything else than a checkpoint in one of Orbax's
// layouts (one pytree item, or a step of items), or a Distributed Checkpoint of PyTorch. The
// message names the first entry that does not belong to the checkpoint, or says why the directory
// is not a checkpoint. The check uses the names and the metadata that lists items and parameters.
// Symbolic links, devices, pipes and sockets are never part of a checkpoint. Throws io if a
// directory cannot be listed.
//
// With ForeignFiles::kRemove it only throws if the top level of a target does not identify it.
void check_only_checkpoint(const Directory& directory, DirectoryRole role,
                           ForeignFiles foreign = ForeignFiles::kRefuse);
// The same for a folder of this machine or of a store.
void check_only_checkpoint(const FolderPtr& folder, DirectoryRole role,
                           ForeignFiles foreign = ForeignFiles::kRefuse);

// The same for a target, but accepts regular files at the top level that do not belong to the
// checkpoint, and returns their names.
std::vector<std::string> foreign_files(const Directory& directory);

// Returns kRemove in place of kKeepFiles if a handler of the program's own has written the whole
// checkpoint: files beside it then belong to it. Else returns `foreign`.
ForeignFiles foreign_of(const FolderHandle& folder, ForeignFiles foreign);

// Returns true if `_CHECKPOINT_METADATA` records that one handler has written the whole checkpoint,
// as one file whose name the program may have chosen: a handler of JSON or of a protocol buffer.
bool is_one_file(const Directory& directory);

}  // namespace cairn::inline v0::orbax
