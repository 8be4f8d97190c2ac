// pytree_checkpoint_handler.h -- PyTreeCheckpointHandler: saves a pytree to the files of one item
// and restores it, leaf by leaf through type handlers, with the options and results of Orbax's
// class of the same name.
//
// A handler alone is not atomic: it writes into a folder that a Checkpointer creates, then commits
// or discards. Throws as the type handlers, and: not_found for a missing folder or missing
// metadata, invalid_argument for arguments that do not match the stored tree, data_loss for damage,
// failed_precondition for a save after close(), io.
#pragma once

#include <cairn/observer.h>
#include <cairn/orbax/handlers.h>
#include <cairn/orbax/pytree_args.h>
#include <cairn/tree.h>

#include <cstddef>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <vector>

#pragma GCC visibility push(default)
namespace cairn::inline v0 {

// Options of merge_ocdbt_per_process_files.
struct MergeOcdbtOptions {
  bool use_zarr3 = false;         // Zarr v3 arrays, which are not validated, as in Orbax
  bool enable_validation = true;  // of Zarr v2 arrays, before anything is committed
  // Store nodes below "ocdbt_meta/"; the values stay in the merged databases.
  bool store_ocdbt_metadata_and_values_separately = false;
  Resources resources = {};
  Observer observer = {};   // told about save.merged; null: nobody
  StoreOptions store = {};  // how to reach the store, if the folder is a URL
};
// Merges the databases ocdbt.process_* of a folder, if any exist, into the folder's own database,
// by reference, in one commit; the merged databases stay. Returns their number. Makes nothing
// durable. PyTreeCheckpointHandler::finalize does this, too.
//
// Throws not_found if the folder is missing; data_loss for a damaged database, for an array that
// has elements and metadata but no chunk, and for a chunk without array metadata.
std::size_t merge_ocdbt_per_process_files(const std::string& directory,
                                          const MergeOcdbtOptions& options = {});

// ---- leaves that are saved apart from the rest of their item ----
//
// A type handler that writes its own files may save leaves through another PyTreeCheckpointHandler,
// into a folder of their own below the item's. These functions make such folders, and move the
// files to where the format has them: a database stays where it is, and finalize merges it.

// Creates a folder for leaves that one process saves. Returns its path.
std::string make_leaf_folder(const std::string& directory, bool use_ocdbt);
// Creates a folder for leaves that several processes save together, unless another process has
// created it. `id` is the same word in all processes, and another one for every save. Throws
// invalid_argument if it is empty, ".", ".." or has a '/'.
std::string make_shared_leaf_folder(const std::string& directory, const std::string& id);
// Moves the files of a folder of leaves into the item's folder `directory`. A file with shardings,
// strings or array metadata that is already there gets the entries of both. Makes nothing durable.
// Throws data_loss if one of two such files is not JSON, io.
void place_leaf_folder(const std::string& folder, const std::string& directory);
// Calls place_leaf_folder for every folder that make_shared_leaf_folder has created. Call it in one
// process, when all have written, and before finalize.
void place_shared_leaf_folders(const std::string& directory);

namespace orbax {
struct CompositeArgs;
}

// Saves and restores the files of one item.
class PyTreeCheckpointHandler {
 public:
  PyTreeCheckpointHandler();
  // Throws invalid_argument for options that exclude each other and for limits that are not
  // positive.
  explicit PyTreeCheckpointHandler(PyTreeCheckpointHandlerOptions options);
  // Waits for background saves.
  ~PyTreeCheckpointHandler();
  PyTreeCheckpointHandler(const PyTreeCheckpointHandler&) = delete;
  PyTreeCheckpointHandler& operator=(const PyTreeCheckpointHandler&) = delete;

  // Writes the item into `directory`, which is created if it is missing. With several processes:
  // returns when all have written.
  void save(const std::string& directory, const PyTreeSaveArgs& args);
  // As save(), in the background. Returns once everything that the caller may change is copied. The
  // futures become ready when everything is written, or carry the error. Device arrays that are not
  // prioritized are copied later; the caller must not change them before.
  std::vector<std::shared_future<void>> async_save(const std::string& directory,
                                                   const PyTreeSaveArgs& args);
  // Call it after all processes have saved. Merges their databases into one, checks their metadata
  // of shared arrays, calls the type handlers' finalize, and makes everything durable. Only the
  // primary does this; in other processes the call does nothing. Throws not_found if the folder is
  // missing.
  void finalize(const std::string& directory) const;
  // Restores the tree. Each process restores for itself, independently of the others, unless a type
  // handler of the registry restores together with them (SingleReplicaArrayHandler): all processes
  // must then make the same call.
  [[nodiscard]] Tree restore(const std::string& directory,
                             const PyTreeRestoreArgs& args = {}) const;
  // Metadata of the stored tree, without values.
  [[nodiscard]] PyTreeMetadata metadata(const std::string& directory) const;
  // Waits for background saves. Nothing can be saved afterwards.
  void close();

 private:
  friend class Checkpointer;
  friend class AsyncCheckpointer;
  friend class CheckpointManager;
  // Makes the directory of a checkpoint and does the part of a save that must end before the caller
  // continues. Returns the rest, which ends with the commit; call it once, in any thread. All
  // processes learn of an error of `make_args`.
  [[nodiscard]] std::function<void()> start_checkpoint(
      const std::string& path, const std::function<orbax::CompositeArgs()>& make_args,
      bool background);
  // Restores unless `look` throws; where processes restore together, all of them learn of its
  // error.
  [[nodiscard]] Tree restore_when(const std::function<void()>& look, const std::string& directory,
                                  const PyTreeRestoreArgs& args) const;
  [[nodiscard]] const Observer& observer() const;

  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace cairn::inline v0
#pragma GCC visibility pop
