// pytree_args.h -- what a pytree is saved and restored with: the options of
// PyTreeCheckpointHandler, and the arguments and results of its functions. Checkpointers and
// CheckpointManager take the same.
#pragma once

#include <cairn/compression.h>
#include <cairn/distributed.h>
#include <cairn/observer.h>
#include <cairn/options.h>
#include <cairn/orbax/leaf_args.h>
#include <cairn/orbax/transforms.h>
#include <cairn/tree.h>
#include <cairn/types.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#pragma GCC visibility push(default)
namespace cairn::inline v0 {

class TypeHandlerRegistry;  // handlers.h

// Requests a limit that Cairn adapts from save to save, so that the peak use of memory is 80 %.
struct AutoLimit {};
// Limit on the bytes copied from devices at once: a number of gigabytes (10^9 bytes), or AutoLimit.
using DeviceHostLimit = std::variant<std::int64_t, AutoLimit>;

// Memory of the host of a device, in GiB.
struct MemoryReading {
  double total = 0;  // memory of the host
  double peak = 0;   // peak use
};

// Options of AutoLimit.
struct MemoryLimitOptions {
  // upper bound in gigabytes; required by AutoLimit
  std::optional<double> max_transfer_concurrent_gb = {};
  // Called before each save; its reading controls the limit. Null: no readings, and the limit
  // stays unchanged.
  std::function<MemoryReading()> read_memory = {};
  std::function<double()> expected_surge_gib = {};  // GiB; null: 0
};

// Metadata of one array in array_metadatas.
struct SavedArrayMetadata {
  std::string param_name = {};
  Shape write_shape = {};
  Shape chunk_shape = {};
  std::string random_key_impl = {};  // for a typed PRNG key; else ""
};
// Checks what the processes recorded of the arrays that they wrote together: by the number of the
// process, in the order of its file. Called once for an item, also if one process has saved. Throws
// if the metadata may not be merged.
using ArrayMetadataValidator =
    std::function<void(const std::map<std::size_t, std::vector<SavedArrayMetadata>>& by_process)>;

// Which metadata of a tree is recorded beside its leaves.
struct PyTreeMetadataOptions {
  // Tuples and named tuples are recorded as such and restored without a target.
  bool support_rich_types = false;
};

// Options of PyTreeCheckpointHandler.
struct PyTreeCheckpointHandlerOptions {
  // Name of the msgpack file of older checkpoints; read only.
  std::string aggregate_filename = "checkpoint";
  std::optional<std::int64_t> save_concurrent_gb = {};  // 10^9 bytes in flight in a save; none: 96
  std::optional<std::int64_t> restore_concurrent_gb = {};  // the same for a restore; none: 96
  // The same limits in bytes, as in Orbax's BasePyTreeCheckpointHandler. Each excludes its
  // counterpart above.
  std::optional<std::int64_t> save_concurrent_bytes = {};
  std::optional<std::int64_t> restore_concurrent_bytes = {};
  // Bytes copied from devices that wait in memory to be written, of all saves of the handler
  // together. Arrays are copied in batches of less than this; an array that is larger is cut into
  // smaller chunks. Arrays that are copied before a background save returns do not count
  // (is_prioritized_key_fn). None: half of `resources.memory`, for each save.
  std::optional<DeviceHostLimit> save_device_host_concurrent_gb = {};
  // The same in bytes; excludes it.
  std::optional<std::int64_t> save_device_host_concurrent_bytes = {};
  MemoryLimitOptions memory_limit_options = {};  // used by AutoLimit
  bool use_ocdbt = true;                         // one database; false: one folder per parameter
  bool use_zarr3 = false;                        // Zarr v3; false: Zarr v2
  bool use_compression = true;                   // false: store raw bytes
  Compression compression = {};                  // the method, if use_compression is set
  // As SaveOptions::chunk_bytes. SaveArgs::chunk_byte_size of a leaf takes precedence.
  std::optional<std::int64_t> chunk_bytes = {};
  // As SaveOptions::durability, for the files and for the commit of a checkpointer.
  Durability durability = Durability::kSynced;
  // Null: default_type_handler_registry().
  std::shared_ptr<const TypeHandlerRegistry> type_handler_registry = {};
  PyTreeMetadataOptions pytree_metadata_options = {};
  // Null: names, chunk shapes, write shapes and key implementations must agree.
  ArrayMetadataValidator array_metadata_validator = {};
  // check the merged database after a save with several processes
  bool enable_post_merge_validation = true;
  // Leaves for which it is true are copied before a background save returns. The others are copied
  // later, after those are written. Null: all leaves are copied first. A key_priority of the array
  // handler takes precedence.
  IsPrioritizedKeyFn is_prioritized_key_fn = {};
  // The processes that save together. All call save (or async_save) in the same way, with trees of
  // the same sharded arrays. Each writes its own pieces; for all other leaves, the primary's values
  // are saved. An error in one process fails all of them: the others throw its text ("process 2:
  // ..."); if a process has died, they throw unavailable within the timeout.
  MultiprocessingOptions multiprocessing_options = {};
  // kUnchanged: a save with PyTreeSaveArgs::reuse_from gives the files of unchanged arrays a second
  // name (a hard link). Each checkpoint remains complete and outlives the deletion of every other.
  // Stored values are compared, or fingerprints where this handler has stored them and nobody has
  // written to the file since. Where nothing can be shared, everything is written, and the observer
  // receives save.not_reused. Large arrays get data files of their own, so set it for the first
  // save, too. CheckpointManager shares with its latest step. Each of several processes shares what
  // it would write.
  Reuse reuse = Reuse::kNone;
  // How the checkpoints of a Checkpointer, AsyncCheckpointer or CheckpointManager become visible,
  // and which ones count as complete for it. A handler alone does not commit.
  CommitProtocol commit_protocol = CommitProtocol::kAtomicRename;
  // With kCommitMarker: a checkpoint without the marker counts, too, unless its metadata say that
  // it is unfinished. Orbax before 0.12.3 renamed checkpoints and wrote no markers. Do not set it
  // while Orbax saves there, because Orbax records less about a save in progress than Cairn does.
  bool allow_legacy_atomic_rename = false;
  // As SaveOptions::save_timeout. Orbax's AsyncOptions.timeout_secs.
  std::optional<std::chrono::milliseconds> save_timeout = {};
  // The most bytes of arrays that a background save copies before it returns. A save with more
  // copies none: it returns when they are written, and only the commit goes on in the background.
  // Arrays that are lent (deepcopy_host_arrays) count, too. None: no limit, as in Orbax.
  std::optional<std::uint64_t> background_copy_bytes = {};
  // The memory is never more than the limits above. Batches of device arrays come in addition if
  // they have a limit, and so do the copies of a background save. The handler keeps at most this
  // many bytes of the copies' memory for the next save.
  Resources resources = {};
  StoreOptions store = {};  // how to reach the store, if a path is a URL
  Observer observer = {};   // told about warnings, durations and sizes; null: nobody
};

// The tree to save, and how.
struct PyTreeSaveArgs {
  // The tree. A custom leaf that holds a LeafType stands for a leaf that somebody else stores:
  // `_METADATA` names its type, and the handler writes nothing for it.
  Tree item;
  // SaveArgs or None in place of each leaf of the item; none: defaults.
  std::optional<Tree> save_args = {};
  std::optional<std::int64_t> ocdbt_target_data_file_size = {};  // bytes; 0: no limit; none: 2 GiB
  std::vector<DictKeyTypes> key_types = {};                      // as SaveOptions::key_types
  // JSON text, stored with the tree; "" for none.
  std::string custom_metadata = {};
  // An earlier checkpoint (or item of one) with which unchanged arrays are shared; "" for none, or
  // for CheckpointManager's latest step. Needs the handler's option `reuse`.
  std::string reuse_from = {};
  // As SaveOptions, for saves by the handler itself. Checkpointers and managers have options of
  // their own (CheckpointerSaveOptions) and throw invalid_argument for these. A background save
  // calls `progress` until it has written everything.
  ProgressFn progress = {};
  std::stop_token cancel = {};
};

// As MultiValueFn, and receives the arguments that restore_args have for the output.
using RestoreMultiValueFn =
    std::function<Tree(std::string_view key, const Tree& stored, const AnyRestoreArgs& args)>;

// A transform, and the arguments for reading the stored leaves that its multi_value_fn_input_args
// name: one per input, in their order; missing ones are RestoreArgs{}. Orbax's RestoreTransform.
struct RestoreTransform {
  Transform transform;  // how the value is made
  std::vector<AnyRestoreArgs> input_args = {};
  // Takes the place of transform.multi_value_fn and excludes it.
  RestoreMultiValueFn multi_value_fn = {};
};
// (regular expression, transform) pairs in the order of application.
using RestoreTransforms = std::vector<std::pair<std::string, RestoreTransform>>;
// The transforms of a nested tree with leaves RestoreTransform{...} or Transform{...}: keys joined
// with '/', in JAX's order, as flatten_transforms. Throws invalid_argument for any other leaf.
RestoreTransforms flatten_restore_transforms(const Tree& tree);

// Type of a leaf without its value.
struct LeafType {
  std::string value_type;  // typestr; "" if it is not recorded
};
// A stored tree as a LegacyTransformFn receives and returns it.
struct StoredStructure {
  // custom leaves that hold a LeafType, empty nodes, and values of older checkpoints
  Tree structure = {};
  Tree param_infos = {};  // custom leaves that hold each leaf's ParamInfo
};
// Maps the stored structure to the structure to restore, for changes that transforms cannot
// express. Receives the target (None if there is none) and the stored trees. Returns both trees
// with one common structure: infos may be moved, changed (name, skip_deserialize) and omitted.
using LegacyTransformFn =
    std::function<StoredStructure(const Tree& item, const StoredStructure& stored)>;

// The tree to restore, and how.
struct PyTreeRestoreArgs {
  // The target: its structure, and values to be replaced. None: as stored.
  std::optional<Tree> item = {};
  // RestoreArgs, ArrayRestoreArgs or None in place of each leaf of the target (or of the stored
  // tree).
  std::optional<Tree> restore_args = {};
  // Builds the target from the stored leaves (transforms.h), with `item` and `restore_args`; only
  // the leaves that it needs are read. Applied in this order. An empty list: the stored value where
  // the target's key is stored, else the target's own value. flatten_restore_transforms makes them
  // from a nested tree.
  std::optional<RestoreTransforms> transforms = {};
  bool transforms_default_to_original = true;  // UnmentionedKeys::kStored; false: kTarget
  LegacyTransformFn legacy_transform_fn = {};  // excludes transforms; null: none
  // Leaves that the target lacks are not restored; leaves that are not stored keep the target's
  // value. Not with transforms.
  bool partial_restore = false;
};

// The arguments that restore a tree like the target: RestoreArgs or ArrayRestoreArgs in place of
// each leaf, which may be an array, a number, a text, a ShapeDtypeStruct, or the ValueMetadata that
// metadata() returns. An array with a sharding is restored with it, to its shape and dtype. Throws
// invalid_argument for other leaves. Orbax's construct_restore_args.
Tree construct_restore_args(const Tree& target);

// Metadata of a stored tree.
struct PyTreeMetadata {
  Tree tree;                    // ValueMetadata (custom leaves) and empty nodes
  std::string custom_metadata;  // JSON text; "" if there is none
  bool use_zarr3 = false;       // Zarr v3; false: Zarr v2
};

}  // namespace cairn::inline v0
#pragma GCC visibility pop
