// pending_checkpoint.h -- the directory of a checkpoint with one item, from its start to its commit.
#pragma once

#include <cairn/orbax.h>
#include <cairn/orbax/layout/metadata.h>
#include <cairn/orbax/save/commit.h>

#include <string>

namespace cairn::inline v0::orbax {

// A checkpoint under construction: a pending directory and the folder of the item, which the caller
// fills. If the object is destroyed without commit(), the checkpoint never appears and the
// directory is removed (see share() for the exception).
class PendingCheckpoint {
 public:
  // `custom_metadata` is the custom metadata of the checkpoint: a JSON object, or "". Throws the
  // errors of cairn::save_orbax.
  PendingCheckpoint(const std::string& path, const SaveOptions& options,
                    const std::string& custom_metadata = "");

  // The folder of the item.
  [[nodiscard]] const std::string& folder() const { return folder_; }
  // Call it before other processes write to the folder. Records in the directory that a save has
  // begun. From then on the destructor does not remove an uncommitted directory.
  void share();
  // Lets the destructor remove the directory although it is shared. All processes must have
  // finished writing. Has no effect after commit().
  void remove() { pending_.remove_if_not_committed(); }
  // Writes the files that mark the checkpoint as complete, makes it durable, and gives it its final
  // name.
  void commit();

 private:
  SaveOptions options_;
  CheckpointMetadata metadata_;
  PendingDirectory pending_;
  std::string folder_;
};

}  // namespace cairn::inline v0::orbax
