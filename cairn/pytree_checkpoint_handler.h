// pytree_checkpoint_handler.h -- PyTreeCheckpointHandler: a pytree to the files of one item and
// back, leaf by leaf through type handlers, with the options and outcomes of Orbax's class of that
// name.
//
// By itself a handler is not atomic: it writes into a folder that a Checkpointer makes, commits or
// throws away. Errors are those of the type handlers, and: not_found for a folder or metadata that
// is not there, invalid_argument for arguments that do not fit what is stored, data_loss for
// damage, io.
#pragma once

#include <cairn/array_spec.h>
#include <cairn/compression.h>
#include <cairn/distributed.h>
#include <cairn/handlers.h>
#include <cairn/transforms.h>
#include <cairn/tree.h>

#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace cairn {

// How many bytes may be copied from devices at once: so many times 10^9, or as the regulator
// decides from save to save.
struct AutoLimit {};
using DeviceHostLimit = std::variant<std::int64_t, AutoLimit>;

struct MemoryLimitOptions {
  std::optional<double> max_transfer_concurrent_gb;  // needed by AutoLimit
  // What the regulator goes by, read before each save; null: nothing is known, and the limit stays.
  std::function<MemoryReading()> read_memory;
  std::function<double()> expected_surge_gib;  // null: none
};

// What array_metadatas says of one array.
struct SavedArrayMetadata {
  std::string param_name;
  Shape write_shape;
  Shape chunk_shape;
  std::string random_key_impl;  // of a typed PRNG key; else ""
};
// Compares what two processes say of the arrays they wrote together, in the order of the first;
// throws for a difference.
using ArrayMetadataValidator = std::function<void(const std::vector<SavedArrayMetadata>& first,
                                                  const std::vector<SavedArrayMetadata>& other)>;

struct PyTreeCheckpointHandlerOptions {
  // of the msgpack file of older checkpoints; read only
  std::string aggregate_filename = "checkpoint";
  std::optional<std::int64_t> save_concurrent_gb;     // times 10^9 bytes in flight; none: 96
  std::optional<std::int64_t> restore_concurrent_gb;  // none: 96
  // The same limits in bytes, as Orbax's BasePyTreeCheckpointHandler has them; each excludes the
  // one above.
  std::optional<std::int64_t> save_concurrent_bytes;
  std::optional<std::int64_t> restore_concurrent_bytes;
  std::optional<DeviceHostLimit> save_device_host_concurrent_gb;
  MemoryLimitOptions memory_limit_options;
  bool use_ocdbt = true;
  bool use_zarr3 = false;
  bool use_compression = true;
  Compression compression;  // which one, if any is used
  // null: default_type_handler_registry()
  std::shared_ptr<const TypeHandlerRegistry> type_handler_registry;
  // Tuples and named tuples are recorded as such and restored without a target.
  struct PyTreeMetadataOptions {
    bool support_rich_types = false;
  } pytree_metadata_options;
  // null: names, chunk and write shapes, and key implementations must agree
  ArrayMetadataValidator array_metadata_validator;
  bool enable_post_merge_validation = true;
  // Leaves for which it is true are copied before a save in the background returns, the others
  // later, once those are written. Null: all are. A key_priority of the array handler's own comes
  // first.
  IsPrioritizedKeyFn is_prioritized_key_fn;
  // With whom it saves. All processes then call save (or async_save) alike, with trees of the same
  // sharded arrays; each writes the pieces that are its own, and of all other leaves the primary's
  // are saved. What fails in one fails in all: by the error's text in the others ("process 2:
  // ..."), or, of one that is gone, unavailable within the time-out.
  MultiprocessingOptions multiprocessing_options;
  std::size_t threads = 0;  // 0: as many as the process may run on
  // bytes of working memory beside the tree; never more than the limits above
  std::uint64_t memory = std::uint64_t{1} << 30U;
};

struct PyTreeSaveArgs {
  Tree item;
  // SaveArgs, or None, where the item has leaves
  std::optional<Tree> save_args;
  std::optional<std::int64_t> ocdbt_target_data_file_size;  // bytes; 0: no limit; none: 2 GiB
  // JSON text, kept with the tree; "" for none
  std::string custom_metadata;
};

// A transform, and how the stored leaves are read that its multi_value_fn_input_args name: one for
// each of those, in their order; those that are missing are RestoreArgs{}. Orbax's
// RestoreTransform.
struct RestoreTransform {
  Transform transform;
  std::vector<AnyRestoreArgs> input_args = {};
};

// For what transforms cannot say. Gets the target (None if there is none), the stored structure
// (custom leaves that hold a LeafType, empty nodes and, of older checkpoints, values) and a tree of
// custom leaves that hold each leaf's ParamInfo. Returns both trees as they shall be restored, of
// one structure: infos may be moved, changed (name, skip_deserialize) and left out.
struct LeafType {
  std::string value_type;  // typestr; "" if it is not recorded
};
struct StoredStructure {
  Tree structure;
  Tree param_infos;
};
using LegacyTransformFn =
    std::function<StoredStructure(const Tree& item, const StoredStructure& stored)>;

struct PyTreeRestoreArgs {
  // the target: its structure, and values to be described or replaced; none: as stored
  std::optional<Tree> item;
  // RestoreArgs, those of arrays, or None, where the target (or what is stored) has leaves
  std::optional<Tree> restore_args;
  // Makes the target out of what is stored (transforms.h), with `item` and `restore_args`; only the
  // leaves that takes are read. In this order. An empty list: what is stored where the target has
  // it, else the target's own.
  std::optional<std::vector<std::pair<std::string, RestoreTransform>>> transforms;
  bool transforms_default_to_original = true;
  LegacyTransformFn legacy_transform_fn;  // excludes transforms; null: none
  // what the target lacks is left out, what is not stored keeps the target's value; not with
  // transforms
  bool partial_restore = false;
};

// A tree of ValueMetadata (custom leaves) and empty nodes, and what goes for all of it.
struct PyTreeMetadata {
  Tree tree;
  std::string custom_metadata;  // JSON text; "" if there is none
  bool use_zarr3 = false;
};

class PyTreeCheckpointHandler {
 public:
  PyTreeCheckpointHandler();
  // Throws invalid_argument for options that exclude each other or limits that are not positive.
  explicit PyTreeCheckpointHandler(PyTreeCheckpointHandlerOptions options);
  // Waits for saves in the background.
  ~PyTreeCheckpointHandler();
  PyTreeCheckpointHandler(const PyTreeCheckpointHandler&) = delete;
  PyTreeCheckpointHandler& operator=(const PyTreeCheckpointHandler&) = delete;

  // Writes the item into `directory`, which is made if it is not there. With other processes:
  // returns when all have written.
  void save(const std::string& directory, const PyTreeSaveArgs& args);
  // Returns once everything that the caller may change has been copied; the futures are ready when
  // all is written, or carry the error. Device arrays that are not prioritized are copied later and
  // must not change before.
  std::vector<std::shared_future<void>> async_save(const std::string& directory,
                                                   const PyTreeSaveArgs& args);
  // Once all processes have saved: merges their databases into one, checks what they say of the
  // arrays they share, calls the type handlers' finalize, and makes everything survive a loss of
  // power. The primary does it; in others this does nothing.
  void finalize(const std::string& directory) const;
  // Each process for itself, whatever the others do; unless a type handler of the registry restores
  // together with them (as SingleReplicaArrayHandler does): then all call it alike.
  [[nodiscard]] Tree restore(const std::string& directory,
                             const PyTreeRestoreArgs& args = {}) const;
  [[nodiscard]] PyTreeMetadata metadata(const std::string& directory) const;
  // Waits for saves in the background. Nothing can be saved afterwards.
  void close();

 private:
  friend class Checkpointer;
  friend class AsyncCheckpointer;
  // Restores unless `look` throws; where processes restore together, all learn of that.
  [[nodiscard]] Tree restore_when(const std::function<void()>& look, const std::string& directory,
                                  const PyTreeRestoreArgs& args) const;

  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace cairn
