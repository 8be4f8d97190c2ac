// pending_checkpoint.h -- the directory of a checkpoint, from its start to its commit.
#pragma once

#include <cairn/options.h>
#include <cairn/orbax/commit/pending_place.h>
#include <cairn/orbax/layout/metadata.h>

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cairn::inline v0::orbax {

// What a checkpoint records beside its trees.
struct CheckpointContent {
  std::string custom_metadata = {};             // a JSON object; "" for none
  Json metrics = {}, performance_metrics = {};  // objects or null
  // Pairs of item name and handler name ("": not recorded) of a checkpoint with several items. A
  // name with a '/' is a folder in an item, which Orbax treats as an item of its own. Empty: the
  // checkpoint has the one tree that SaveOptions describes.
  std::vector<std::pair<std::string, std::string>> items = {};
};

// Orbax's name for the handler of a pytree; of version 1 of its API or of the older one.
std::string_view pytree_handler_name(bool v1);

// Throws invalid_argument unless the name can be that of an item.
void check_item_name(const std::string& name);

// A checkpoint under construction: a pending directory and the folder that the caller fills: that
// of its one tree, or that of all items. If the object is destroyed without commit(), the
// checkpoint never appears and the directory is removed (see share() for the exception).
class PendingCheckpoint {
 public:
  // Makes the folder of each item. Throws the errors of cairn::save_orbax.
  PendingCheckpoint(const std::string& path, const SaveOptions& options,
                    const CheckpointContent& content = {});

  // The folder of the one tree, or the folder that has the folders of the items.
  [[nodiscard]] const OutputFolder& folder() const { return folder_; }
  // Call it before other processes write to the folder. Records in the directory that a save has
  // begun. From then on the destructor does not remove an uncommitted directory.
  void share();
  // Lets the destructor remove the directory although it is shared. All processes must have
  // finished writing. Has no effect after commit().
  void remove() { pending_->remove_if_not_committed(); }
  // As PendingPlace::is_taken().
  [[nodiscard]] bool is_taken() { return pending_->is_taken(); }
  // Writes the files that mark the checkpoint as complete, makes it durable, and gives it its final
  // name. `synced` as in sync_tree().
  void commit(SyncedFiles* synced = nullptr);

 private:
  [[nodiscard]] OutputFolder folder_of(const std::string& item) const;
  void mark_items() const;
  void record_handlers();
  void write_metadata() const;

  SaveOptions options_;
  // Pairs of name ("": the checkpoint itself) and handler.
  std::vector<std::pair<std::string, std::string>> items_;
  CheckpointMetadata metadata_;
  std::unique_ptr<PendingPlace> pending_;
  OutputFolder folder_;
};

}  // namespace cairn::inline v0::orbax
