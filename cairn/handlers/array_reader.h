// array_reader.h -- the stored arrays of one pytree: which there are, what they are like, reading
// and checking them. The bridge between leaves, which have parameter names, and Zarr arrays, which
// are keys below those names.
#pragma once

#include <cairn/base/executor.h>
#include <cairn/checkpoint.h>
#include <cairn/kvstore.h>
#include <cairn/tree/name_table.h>
#include <cairn/verify_report.h>
#include <cairn/zarr/read/array.h>
#include <cairn/zarr/read/value_streams.h>

#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace cairn::handlers {

// What a leaf whose array is still to be looked up has as dtype_name; it keeps it where that fails.
inline constexpr std::string_view kUnknownDtype = "?";

// The arrays of some tensors, by position; nullopt where there is none (or it cannot be opened).
using StoredArrays = std::vector<std::optional<zarr::ZarrArray>>;

// Where the metadata of arrays is.
struct ArrayKeys {
  int zarr_format = 0;            // 2, 3 (the other is tried if there is none), or 0
  std::string metadata_key = {};  // a name of its own for that of Zarr v2; "": .zarray or zarr.json
};

// Opens the array of every tensor whose dtype_name is "?" and fills in what its metadata says. One
// that is missing or damaged gets an `error` and keeps "?"; the others go on. In parallel where
// there are many: each may be a file of its own. executor null: the process's.
StoredArrays open_arrays(const StorePtr& store, const ArrayKeys& keys,
                         std::span<TensorInfo> tensors, Executor* executor = nullptr);

// Whether open_arrays found nothing under the tensor's name, as against something damaged.
bool is_missing(const TensorInfo& tensor);

// Fills in what an array's metadata says of a tensor. data_loss if it would take 2^64 bytes.
void describe_array(const zarr::ArrayMetadata& metadata, TensorInfo& tensor);

// Adds up, for each tensor, the sizes of its chunks. `keys`: everything in the store. `names` is
// made of `tensors`.
void fill_stored_sizes(std::span<const ListEntry> keys, const NameTable& names,
                       std::span<TensorInfo> tensors);

// Names of the arrays whose metadata is among `keys`, sorted; Zarr v3 groups, which look alike, are
// left out.
std::vector<std::string> find_array_names(const StorePtr& store, std::span<const ListEntry> keys);

// Keys of the form of a chunk that are none of the array whose name they have (outside its grid, or
// spelled otherwise), each with the position of that array.
std::vector<std::pair<std::size_t, std::string>> find_stray_chunks(
    std::span<const ListEntry> keys, const NameTable& names,
    std::span<const std::optional<zarr::ZarrArray>> arrays);

// The parameter that `key` belongs to if it has the form of a chunk or of metadata: "a/.zarray",
// "a/0.1", "a/c/0" -> "a".
std::optional<std::string_view> array_of_key(std::string_view key);

// Whether `key` is that of an array's (or group's) metadata: "a/.zarray", "zarr.json".
bool is_metadata_key(std::string_view key);

// Decoders of values too large for the memory, kept between reads of their parts.
using ValueStreams = zarr::ValueStreams;

// How much work may be done at once, and with what.
struct WorkLimits {
  Executor* executor = nullptr;
  std::uint64_t memory = std::uint64_t{1} << 30U;
  ValueStreams* streams = nullptr;
};

// Reads all as one plan; progress is called about ten times a second, and at the end.
void read_arrays(std::span<const zarr::BoxRead> reads, const WorkLimits& limits,
                 const ProgressFn& progress);

// One array to be checked.
struct ArrayCheck {
  const zarr::ZarrArray* array = nullptr;
  std::string label;
  zarr::MissingChunk missing = zarr::MissingChunk::kError;
  bool in_database = false;  // whose nodes have checksums, and so have values inside them
};
// Decodes every chunk of every array, or those of this share, in parallel. Of arrays of which it
// has looked at something, in the order of `checks`; `tensor` of each is its place there.
std::vector<CheckedArray> verify_arrays(std::span<const ArrayCheck> checks, WorkShare share,
                                        const WorkLimits& limits, const ProgressFn& progress);

}  // namespace cairn::handlers
