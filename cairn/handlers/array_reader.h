// array_reader.h -- the stored arrays of one pytree: finding, describing, reading and checking
// them. It maps leaves, which have parameter names, to Zarr arrays, which are keys below those
// names.
#pragma once

#include <cairn/base/executor.h>
#include <cairn/base/verify_part.h>
#include <cairn/base/work_partition.h>
#include <cairn/checkpoint.h>
#include <cairn/storage/kvstore.h>
#include <cairn/tree/name_table.h>
#include <cairn/zarr/read/array.h>
#include <cairn/zarr/read/value_streams.h>

#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace cairn::inline v0::handlers {

// The arrays of some tensors, by position. nullopt: the tensor has no array, or it cannot be
// opened.
using StoredArrays = std::vector<std::optional<zarr::ZarrArray>>;

// Where the metadata of arrays lies.
struct ArrayKeys {
  int zarr_format = 0;            // 2, 3 (the other is tried if there is none), or 0
  std::string metadata_key = {};  // the name of Zarr v2 metadata; "": .zarray or zarr.json
};

// Opens the array of every tensor of LeafKind::kUnknown and fills in its metadata. A tensor whose
// array is missing or damaged gets an `error` and stays unknown; the others are not affected. Works
// in parallel if there are many, because each may be a file of its own. A null executor means the
// default one of the process.
StoredArrays open_arrays(const StorePtr& store, const ArrayKeys& keys,
                         std::span<TensorInfo> tensors, Executor* executor = nullptr);

// Whether open_arrays found nothing under the tensor's name, as opposed to something damaged.
bool is_missing(const TensorInfo& tensor);

// Fills in a tensor from its array's metadata. Strings and byte strings make it a string leaf;
// other elements without a fixed size give it an error. Throws data_loss if the array would take
// 2^64 bytes.
void describe_array(const zarr::ArrayMetadata& metadata, TensorInfo& tensor);

// Adds up the sizes of the chunks of each tensor. `keys` lists everything in the store; `names` is
// built from `tensors`; `arrays` has one entry for each of them. executor null: default_executor().
void fill_stored_sizes(std::span<const ListEntry> keys, const NameTable& names,
                       std::span<const std::optional<zarr::ZarrArray>> arrays,
                       std::span<TensorInfo> tensors, Executor* executor = nullptr);

// The names of the arrays whose metadata is among `keys`, sorted. Leaves out Zarr v3 groups, whose
// metadata has the same key.
std::vector<std::string> find_array_names(const StorePtr& store, std::span<const ListEntry> keys);

// Keys that look like chunks of an array but are not its chunks: outside its grid, or spelled
// differently. Each comes with the position of the array.
std::vector<std::pair<std::size_t, std::string>> find_stray_chunks(
    std::span<const ListEntry> keys, const NameTable& names,
    std::span<const std::optional<zarr::ZarrArray>> arrays);

// The parameter that `key` belongs to, if the key has the form of a chunk or of metadata:
// "a/.zarray", "a/0.1", "a/c/0" -> "a". Otherwise nullopt.
std::optional<std::string_view> array_of_key(std::string_view key);

// Whether `key` is the metadata of an array or group: "a/.zarray", "zarr.json".
bool is_metadata_key(std::string_view key);

// The metadata of a Zarr v3 group may contain the metadata of every array below it.
inline constexpr std::uint64_t kMaxGroupBytes = std::uint64_t{64} << 20U;
// Whether `key`, a `zarr.json`, describes a group.
bool is_group(const StorePtr& store, const std::string& key);

// Reads a whole array of strings or byte strings, in C order. Throws unimplemented if they take
// more than `memory` bytes, and more than 1 GiB.
std::vector<std::string> read_strings(const zarr::ZarrArray& array, zarr::MissingChunk missing,
                                      std::uint64_t memory);

// Decoders of values too large for memory, kept between reads of their parts.
using ValueStreams = zarr::ValueStreams;

// Bounds of the work done at once, and the means for it.
struct WorkLimits {
  Executor* executor = nullptr;
  std::uint64_t memory = std::uint64_t{1} << 30U;
  ValueStreams* streams = nullptr;
};

// Performs all reads as one plan. Calls `progress` about ten times a second, and at the end.
void read_arrays(std::span<const zarr::BoxRead> reads, const WorkLimits& limits,
                 const ProgressFn& progress);

// One array to check.
struct ArrayCheck {
  const zarr::ZarrArray* array = nullptr;
  std::string label;
  zarr::MissingChunk missing = zarr::MissingChunk::kError;
  bool in_database = false;  // its nodes have checksums, which cover the values inside them
  bool must_suit_tensorstore = false;  // as in zarr::ReadContext
};
// Decodes every chunk of every array, or those of this share, in parallel. Returns the arrays of
// which it checked at least a part, in the order of `checks`; `tensor` of each is its position
// there.
std::vector<CheckedArray> verify_arrays(std::span<const ArrayCheck> checks, WorkShare share,
                                        const WorkLimits& limits, const ProgressFn& progress);

}  // namespace cairn::inline v0::handlers
