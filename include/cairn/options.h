// options.h -- the options of a save. Those of opening are in checkpoint.h.
#pragma once

#include <cairn/checkpoint.h>
#include <cairn/compression.h>
#include <cairn/distributed.h>
#include <cairn/observer.h>
#include <cairn/tree.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#pragma GCC visibility push(default)
namespace cairn::inline v0 {

// Whether a save shares stored arrays with an earlier checkpoint.
enum class Reuse : std::uint8_t {
  kNone,      // each save writes everything
  kUnchanged  // arrays whose bytes are those of the earlier checkpoint are not written again
};

// Options of cairn::save and save_orbax. Values that make no sense are invalid_argument.
struct SaveOptions {
  // Store all arrays in one OCDBT database; false: one folder per parameter.
  bool use_ocdbt = true;
  // Store arrays as Zarr v3, the default of newer Orbax. Default: Zarr v2, which every version of
  // Orbax reads.
  bool use_zarr3 = false;
  // None: the tree itself is the checkpoint, as Checkpointer and StandardCheckpointer save it. A
  // name: the tree is that item of a composite checkpoint ("default" for a step of a
  // CheckpointManager, "state" for version 1 of Orbax's API). The name becomes a folder: '/', "."
  // and ".." are refused.
  std::optional<std::string> item = {};
  // Write the marker file that version 1 of Orbax's API looks for. Requires `item`; with use_zarr3
  // the result looks like that API's own checkpoints.
  bool v1 = false;
  Compression compression = {};  // how chunks are compressed
  // Target size of a chunk in bytes (positive). None: larger arrays are cut along their leading
  // dimensions into chunks of at most 16 MiB, so that all cores work on one array, and a part of
  // it is read without much of the rest. Where no divisor of an extent gives such chunks of at
  // least 1 MiB, they have 4 to 64 MiB. With Compression::kNone, and where neither is possible,
  // an array is one chunk. It is cut as Orbax cuts it if target_file_bytes requires more chunks.
  std::optional<std::int64_t> chunk_bytes = {};
  // Target size of the database's data files in bytes; 0: no limit.
  std::int64_t target_file_bytes = std::int64_t{2} << 30U;
  // Record tuples and named tuples as such, so that they are restored without a target, as
  // PyTreeMetadataOptions. False: a restore returns lists and dicts.
  bool support_rich_types = false;
  // The dicts of the tree whose keys are not str in Python, so that Python gets such keys back from
  // a load without a target. Throws invalid_argument for a dict or a key that the tree lacks.
  std::vector<DictKeyTypes> key_types = {};
  // A JSON object about the checkpoint; "" for none. Stored in `_CHECKPOINT_METADATA`, where
  // metadata().custom_metadata of Orbax finds it.
  std::string custom_metadata = {};
  // JSON text about the tree, stored in its `_METADATA`, as PyTreeSaveArgs::custom_metadata; "" for
  // none. JSON null is refused.
  std::string item_metadata = {};
  IfExists if_exists = IfExists::kFail;  // what to do if the target exists
  // kUnsynced: other processes see the checkpoint complete or not at all, but it may be lost or
  // damaged by a power failure. For checkpoints that need not survive one.
  Durability durability = Durability::kSynced;
  CommitProtocol commit_protocol = CommitProtocol::kAtomicRename;
  // kUnchanged: arrays whose bytes are those of `reuse_from` are compared with what is stored there
  // and share its files (PyTreeCheckpointHandlerOptions::reuse). Large arrays get data files of
  // their own, so set it for the first save, too.
  Reuse reuse = Reuse::kNone;
  // The earlier checkpoint, or an item of one; "" for none. Needs `reuse`.
  std::string reuse_from = {};
  Resources resources = {};
  StoreOptions store = {};   // how to reach the store, if the path is a URL
  Observer observer = {};    // told about warnings and durations; null: nobody
  ProgressFn progress = {};  // null: none
  // For save_as() of a Distributed Checkpoint (kDcp): several processes save together. All make the
  // call with trees of the same structure, and each writes the shards on its devices and one data
  // file; arrays that are not sharded, and other leaves, are those of the primary. Orbax
  // checkpoints of several processes are saved with a Checkpointer; other formats have no such
  // option.
  MultiprocessingOptions multiprocessing = {};
  // A save that takes longer ends soon after this time, with the error deadline_exceeded, as if the
  // caller had asked it to stop. With several processes, each measures its own time, and one late
  // process fails all. None: no limit. Throws invalid_argument if it is not positive.
  std::optional<std::chrono::milliseconds> save_timeout = {};
  // A request to stop ends the save soon, with the error cancelled. It leaves at most the files
  // that an interrupted save may leave. After the commit the request has no effect.
  std::stop_token cancel = {};
};

}  // namespace cairn::inline v0
#pragma GCC visibility pop
