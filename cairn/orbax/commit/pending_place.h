// pending_place.h -- PendingPlace, where one save writes a checkpoint until it is complete: a
// directory (PendingDirectory), or the prefix of a store (PendingUpload).
#pragma once

#include <cairn/io/directory.h>
#include <cairn/kvstore/folders/output_folder.h>
#include <cairn/options.h>

#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace cairn::inline v0::orbax {

// If it is destroyed without a commit, the checkpoint never appears. What was written is removed,
// unless leave_if_not_committed() was called.
class PendingPlace {
 public:
  PendingPlace() = default;
  PendingPlace(const PendingPlace&) = delete;
  PendingPlace& operator=(const PendingPlace&) = delete;
  virtual ~PendingPlace() = default;

  // Where it is written.
  [[nodiscard]] virtual OutputFolder folder() const = 0;
  // Where it will be: an absolute path, or a URL.
  [[nodiscard]] virtual std::string target() const = 0;
  // True if it is written where it will be. Readers then tell from its records that it is not
  // complete, so it needs them from the first moment.
  [[nodiscard]] virtual bool is_in_place() const = 0;

  // Other processes may still write: what is not committed stays. The next save to the same target
  // removes it.
  virtual void leave_if_not_committed() = 0;
  // Undoes leave_if_not_committed().
  virtual void remove_if_not_committed() = 0;

  // Call it after an error. Whether another save has taken the place meanwhile, and removed what
  // this one had written.
  [[nodiscard]] virtual bool is_taken() { return false; }

  // Writes or rewrites a file that tells how far the save is.
  virtual void write_record(std::string_view name, std::string_view text) = 0;
  // Makes the checkpoint complete. Calls `write_metadata`, which writes the last records, when
  // everything else is durable, and adds the commit marker. The message of an error says "in place"
  // if the new checkpoint is in place. `synced` as in sync_tree().
  virtual void commit(const std::function<void()>& write_metadata, SyncedFiles* synced) = 0;
};

// The place of a save with these options, at a path or at a URL. Throws what PendingDirectory and
// PendingUpload throw.
std::unique_ptr<PendingPlace> make_pending_place(const std::string& target,
                                                 const SaveOptions& options);
// Returns the absolute path or the URL where a checkpoint is written. Throws as
// make_pending_place() does for an invalid target.
std::string pending_path(const std::string& target, const SaveOptions& options);

// The content of the marker of a checkpoint or item that has this path.
std::string commit_text(const std::string& path);

}  // namespace cairn::inline v0::orbax
