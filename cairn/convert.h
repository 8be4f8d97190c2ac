// convert.h -- writes a checkpoint in another format, with other names or types, or for another
// mesh.
#pragma once

#include <cairn/checkpoint.h>
#include <cairn/compression.h>
#include <cairn/distributed.h>
#include <cairn/msgpack.h>
#include <cairn/sharding.h>
#include <cairn/types.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cairn {

// ---- transforming ----

struct TransformReport {
  // key, and what it is made of; leaves that stay as they are left out
  std::vector<std::pair<std::string, std::string>> made;
  std::vector<std::string> unused;  // stored leaves that nothing is made of
  std::uint64_t read_bytes = 0;     // of the leaves that something is made of
};
struct Transformed {
  std::unique_ptr<Checkpoint> checkpoint;
  TransformReport report;
};
// The checkpoint that rules (JSON, docs/transforms.md) make of another: renamed, dropped, cast,
// turned, joined and cut leaves, and sums with low-rank products. Lazy: a box of it that is read
// reads the boxes that it is made of, with at most about `memory` bytes in between. Throws
// invalid_argument that names the rule by its JSON pointer.
Transformed transform(std::shared_ptr<const Checkpoint> source, std::string_view rules,
                      std::uint64_t memory = std::uint64_t{1} << 30U);

// The same with rules from a file.
Transformed transform_by_file(std::shared_ptr<const Checkpoint> source,
                              const std::string& rules_path,
                              std::uint64_t memory = std::uint64_t{1} << 30U);

// ---- converting ----

// "safetensors", "npz", "msgpack", "tensorflow" (the target is a prefix), "orbax" (OCDBT and Zarr
// v2), "orbax-zarr3" (OCDBT and Zarr v3), "orbax-files" (a folder per parameter).
std::span<const std::string_view> convert_formats();

struct ConvertOptions {
  // one of convert_formats(); "" = by the target's extension
  std::string format;
  std::vector<std::string> include, exclude;  // globs over names; include empty = all
  // Regular expressions (the syntax of Python's re) and what replaces each of their matches in a
  // name, in order: $1 is the first group, $& the whole match, $$ a dollar sign.
  std::vector<std::pair<std::string, std::string>> rename;
  std::optional<DType> dtype;     // cast every floating array, but no scalar, to this
  bool skip_unsupported = false;  // leave out what the target cannot hold, and list it
  IfExists if_exists = IfExists::kFail;
  bool dry_run = false;  // decide and report, but write nothing
  // of safetensors files, and of TensorFlow's data files
  std::optional<std::uint64_t> max_shard_bytes;
  // of msgpack files; none: kFlaxState, which flax restores into any state
  std::optional<MsgpackDialect> msgpack_dialect;
  // Of TensorFlow checkpoints. Leaves get keys and objects that tf.train.Checkpoint(**tree)
  // restores, or keep those that they have if the source is one of TensorFlow, too; plain_names:
  // keys are names as they are, without objects, as tf.compat.v1.train.Saver restores them.
  bool plain_names = false;
  // As tf.train.Checkpoint.save(): the folder's file `checkpoint` names this as the latest, and
  // there is a save_counter. False: as write().
  bool name_latest = true;
  // Of Orbax checkpoints, as in SaveOptions.
  Compression compression;
  std::optional<std::int64_t> chunk_bytes;
  std::optional<std::int64_t> target_file_bytes;
  std::optional<std::string> item;
  std::uint64_t memory = std::uint64_t{1} << 30U;  // peak working memory, bytes
  ProgressFn progress;
  // Several processes that see the same source and the same target's folder, called with the same
  // options: each reads and writes its share of the bytes. Files are those of one process; an Orbax
  // checkpoint holds the same, but chunks that are larger than both a process's share and 4 MiB are
  // cut.
  MultiprocessingOptions multiprocessing;
};
struct ConvertReport {
  std::string format;
  std::vector<std::string> files;  // written
  std::uint64_t tensors = 0, bytes = 0;
  std::vector<std::pair<std::string, std::string>> skipped;  // name, why
  std::vector<std::pair<std::string, std::string>> renamed;  // from, to
  // written as 0-d arrays, where the format has no scalars
  std::vector<std::string> scalars;
  std::uint64_t cast = 0;  // tensors whose dtype was changed
};
// Never loses a leaf silently: one the target cannot hold is invalid_argument naming it, unless
// skip_unsupported; two leaves with one name after renaming likewise. not_found where include and
// exclude select nothing of a checkpoint that has leaves: nothing is written.
ConvertReport convert(const Checkpoint& source, const std::string& target,
                      const ConvertOptions& options);
std::string convert_json(const ConvertReport& report);

// ---- resharding ----

struct ReshardOptions {
  // The devices that will read it. None: arrays keep their shardings, and only chunks are cut anew.
  std::optional<Mesh> mesh;
  // Globs over names, and how arrays of such names are split over the mesh; the first that matches
  // counts. Device arrays (jax.Array) that none matches are replicated; host arrays stay what they
  // are.
  std::vector<std::pair<std::string, PartitionSpec>> specs;
  std::optional<std::int64_t> chunk_bytes;  // no chunk is larger; it divides what a device reads
  // an Orbax one of convert_formats(); "": as the source is stored, if it is one of Orbax
  std::string format;
  Compression compression;
  std::optional<std::int64_t> target_file_bytes;
  std::optional<std::string> item;
  IfExists if_exists = IfExists::kFail;
  bool dry_run = false;                            // decide and report, but write nothing
  std::uint64_t memory = std::uint64_t{1} << 30U;  // peak working memory, bytes
  ProgressFn progress;
  MultiprocessingOptions multiprocessing;  // as in ConvertOptions
};
struct ReshardReport {
  struct Leaf {
    std::string name;
    std::string dtype;
    Shape shape;
    Shape box;             // what a device reads: chunks divide it
    std::string sharding;  // for people; "" if it has none
  };
  ConvertReport written;
  std::vector<Leaf> arrays;        // that are not scalars
  std::uint64_t device_bytes = 0;  // that each device of the mesh reads of them; without a mesh 0
};
// Writes the checkpoint again, stored in the boxes that devices of another topology will read, with
// the shardings that say so; values, tree and metadata stay. Throws invalid_argument for options
// that ask for nothing, a mesh or spec that is unsound or does not divide an array (naming it), a
// glob that matches no array, and what convert refuses.
ReshardReport reshard(const Checkpoint& source, const std::string& target,
                      const ReshardOptions& options);
std::string reshard_json(const ReshardReport& report);

}  // namespace cairn
