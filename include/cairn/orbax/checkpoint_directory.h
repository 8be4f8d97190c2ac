// checkpoint_directory.h -- directories of checkpoints for programs that write the files of one
// themselves: a directory that appears complete or not at all, and the safe removal of one.
// Checkpointer and CheckpointManager do this for the items that Cairn writes.
#pragma once

#include <cairn/bytes.h>
#include <cairn/error.h>
#include <cairn/storage/store_options.h>

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#pragma GCC visibility push(default)
namespace cairn::inline v0 {

// Takes the permissions that `mode` lacks from a directory that was just made, as if mkdir had got
// the mode: 0750. Its own permissions show the umask of the process. The bits beside 0777 stay.
void restrict_permissions(const std::string& directory, unsigned mode);

// A directory to be written. It is <target>.orbax-checkpoint-tmp until commit(). Only one save to a
// target is possible at a time.
//
// With kCommitMarker it is the target itself, which is complete when commit() has added the file
// commit_success.txt. The caller first calls record_start(), or writes a file _CHECKPOINT_METADATA
// with a start time and without a commit time: such a directory is what a later save may remove.
//
// The target may be the URL of a store. Its values always are written at the target, and
// commit_success.txt comes last, whatever the protocol. The caller must call record_start(), which
// claims the place. kKeepFiles keeps nothing of an older checkpoint: it refuses one with foreign
// files. Without a commit, the destructor removes all values below the target, unless another save
// has claimed it.
class CheckpointDirectory {
 public:
  // Creates the directory. Removes what an interrupted save has left there. Throws already_exists
  // if the target exists and may not be replaced, or holds anything besides a checkpoint that
  // `foreign` does not allow; unavailable if another save to it is in progress; io. Of a store,
  // also unimplemented if it cannot be written.
  explicit CheckpointDirectory(const std::string& target, IfExists if_exists = IfExists::kFail,
                               CommitProtocol protocol = CommitProtocol::kAtomicRename,
                               ForeignFiles foreign = ForeignFiles::kRefuse,
                               const StoreOptions& store = {});
  // Removes the directory, unless it is committed.
  ~CheckpointDirectory();
  CheckpointDirectory(const CheckpointDirectory&) = delete;
  CheckpointDirectory& operator=(const CheckpointDirectory&) = delete;

  // Where to write: a path, or a URL.
  [[nodiscard]] std::string path() const;
  // Calls restrict_permissions() for the directory. A store has nothing to restrict.
  void restrict_permissions(unsigned mode);
  // Records in the file _CHECKPOINT_METADATA that a save begins now. `custom_metadata` is a JSON
  // object, which is stored byte for byte and not parsed.
  void record_start(std::string_view custom_metadata = "{}");
  // Makes everything below the directory durable and gives it the target's name. At every moment
  // there is a whole checkpoint at the target, the old or the new one. Throws as the constructor.
  // With kCommitMarker it adds the marker instead.
  //
  // `write_metadata`, if it is given, writes the file _CHECKPOINT_METADATA with the commit time.
  // With kCommitMarker it is called when everything else is durable.
  void commit(const std::function<void()>& write_metadata = {});
  // After record_start(): commits with the file _CHECKPOINT_METADATA that Orbax writes, and with
  // kAtomicRename the file commit_success.txt, too. `item_handlers` is JSON, stored as above: the
  // name of the handler of the whole checkpoint, or an object of them by item, or null.
  void commit_recorded(std::string_view item_handlers);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Removes the directory of a checkpoint. Throws already_exists for a directory that holds anything
// besides a checkpoint (unless `foreign` is kRemove), unavailable while a save to it is in
// progress. Does nothing if nothing is there. Symbolic links are not followed. With kCommitMarker
// the marker goes first, and the directory keeps its name. So it is in a store.
void remove_checkpoint(const std::string& path,
                       CommitProtocol protocol = CommitProtocol::kAtomicRename,
                       ForeignFiles foreign = ForeignFiles::kRefuse,
                       const StoreOptions& store = {});

// Moves the directory of a checkpoint to `subdirectory` beside it, where it takes the place of one
// of the same name. Throws as remove_checkpoint(), and unimplemented for a store, which cannot
// rename: see copy_checkpoint().
void set_checkpoint_aside(const std::string& path, const std::string& subdirectory,
                          ForeignFiles foreign = ForeignFiles::kRefuse);

// Copies the checkpoint at the URL of a store to another URL in the same bucket, where nothing may
// be: commit_success.txt comes last. Until then `target` is unfinished. Throws not_found if nothing
// is at `url`, already_exists if something is at `target` or if `url` holds anything besides a
// checkpoint (unless `foreign` is kRemove), invalid_argument if one is inside the other or they are
// in two buckets.
void copy_checkpoint(const std::string& url, const std::string& target,
                     ForeignFiles foreign = ForeignFiles::kRefuse, const StoreOptions& store = {});

}  // namespace cairn::inline v0
#pragma GCC visibility pop
