// save.h -- a whole checkpoint of one item, whatever its leaves come from.
#pragma once

#include <cairn/distributed.h>
#include <cairn/orbax/layout/metadata.h>
#include <cairn/orbax/save/commit.h>
#include <cairn/orbax/save/item_writer.h>

#include <string>

namespace cairn::orbax {

// A checkpoint that is being made: a pending directory with the folder of the item, to be filled by
// the caller. Destroyed without commit(), it has never been.
class PendingCheckpoint {
 public:
  // custom_metadata: of the checkpoint, a JSON object, or "". Throws as cairn::save_orbax.
  PendingCheckpoint(const std::string& path, const SaveOptions& options,
                    const std::string& custom_metadata = "");

  [[nodiscard]] const std::string& folder() const { return folder_; }
  // Before others write there, too: says in the folder that a save has begun. It stays if it is not
  // committed.
  void share();
  // Removes it however many share it; they must have ended their writing. Nothing if it is
  // committed.
  void remove() { pending_.remove_if_not_committed(); }
  // Adds what tells that it is complete, makes it durable, and gives it its name.
  void commit();

 private:
  SaveOptions options_;
  CheckpointMetadata metadata_;
  PendingDirectory pending_;
  std::string folder_;
};

// As cairn::save_orbax. The item's own custom metadata counts, not that of the options. Several
// processes save one together, whose leaves are dealt out.
void save_item(const std::string& path, const SaveItem& item, const SaveOptions& options,
               const MultiprocessingOptions& job = {});

}  // namespace cairn::orbax
