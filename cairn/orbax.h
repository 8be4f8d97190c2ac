// orbax.h -- Orbax checkpoints: a directory that is complete or absent.
#pragma once

#include <cairn/checkpoint.h>
#include <cairn/compression.h>
#include <cairn/tree.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

namespace cairn {

// Whether `path` is a directory in which an Orbax checkpoint, step root, item, or bare OCDBT
// database can be seen.
bool is_orbax(const std::string& path);

// Opens an Orbax checkpoint of any layout. Errors as cairn::open.
std::unique_ptr<Checkpoint> open_orbax(const std::string& path, const OpenOptions& options = {});

struct SaveOptions {
  bool use_ocdbt = true;  // one database; false: one folder per parameter
  // arrays as Zarr v3, which newer Orbax writes by default; v2 is what all versions read
  bool use_zarr3 = false;
  // None: the tree is the checkpoint itself, for Checkpointer and StandardCheckpointer. A name: the
  // tree is that item of a composite ("default" for a CheckpointManager's step, "state" for version
  // 1 of the API).
  std::optional<std::string> item;
  // with the marker that version 1 of Orbax's API looks for; wants an item and zarr3 to look like
  // its own
  bool v1 = false;
  Compression compression;
  // none: an array is one chunk, unless a file limit asks for more
  std::optional<std::int64_t> chunk_bytes;
  // of the database's data files; 0: no limit
  std::int64_t target_file_bytes = std::int64_t{2} << 30U;
  // JSON text, kept with the tree; "" for none
  std::string custom_metadata;
  IfExists if_exists = IfExists::kFail;
  // kUnsynced: complete or absent for other processes, but not after a loss of power. For
  // checkpoints that need not survive one.
  Durability durability = Durability::kSynced;
  std::size_t threads = 0;                         // 0: as many as the process may run on
  std::uint64_t memory = std::uint64_t{1} << 30U;  // bytes of working memory beside the tree
  ProgressFn progress;
};

// Saves a tree as an Orbax checkpoint at a local path: written to <path>.orbax-checkpoint-tmp,
// synced, then renamed, so that a reader finds all of it or nothing. Arrays are saved as host
// arrays ("np.ndarray"), numbers as scalars. Every value carries a checksum that all readers check,
// unless the compression is kNone or blosc. Throws already_exists, invalid_argument (naming the
// leaf) for what the format cannot hold, io.
void save_orbax(const std::string& path, const Tree& tree, const SaveOptions& options = {});

}  // namespace cairn
