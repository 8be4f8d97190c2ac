// read_leaves.h -- what all handlers of stored arrays do on restore: read many of them as one plan,
// in the element types asked for.
#pragma once

#include <cairn/handlers.h>

#include <span>
#include <string_view>
#include <vector>

namespace cairn::handlers {

// A box of a stored array into memory of any element type.
struct LeafRead {
  std::string_view name;
  DType stored = DType::kUint8;
  Box box;
  MutableArrayView out;
};

// Those that keep their type are read straight into place; the others are converted, at most
// `held_bytes` of stored elements at a time (a row of the first dimension, if that is more).
void read_leaves(const ItemReader& reader, std::span<const LeafRead> reads,
                 std::int64_t held_bytes);
// How many that may be: no more than the leaves' limiter grants.
std::int64_t conversion_bytes(std::span<const ParamInfo> infos);

// What is stored under the names of the leaves, with metadata of that name ("": the usual one).
std::vector<TensorInfo> stored_arrays(const ItemReader& reader, std::span<const ParamInfo> infos,
                                      const std::string& metadata_key);

// Of stored arrays: typestr, dtype, shape and chunks, `infos` by `infos`.
std::vector<ValueMetadata> array_value_metadata(std::span<const ParamInfo> infos,
                                                std::string_view typestr,
                                                const std::string& metadata_key);

// The reader, or writer, that all infos of a call share. Throws invalid_argument if there is none,
// and if the infos do not agree on whether the checkpoint is an OCDBT one, or do not say.
const ItemReader& reader_of(std::span<const ParamInfo> infos);
ItemWriter& writer_of(std::span<const ParamInfo> infos);

// The arguments as those of any leaf.
std::optional<DType> dtype_of(const AnyRestoreArgs& args);
std::optional<RestoreType> restore_type_of(const AnyRestoreArgs& args);

// Without the entries of a partition spec behind the last dimension that split nothing: on restore
// JAX passes over them.
Sharding for_rank(Sharding sharding, std::size_t rank);

// Throws invalid_argument for an array without elements.
void check_not_empty(const ParamInfo& info, std::span<const std::int64_t> shape);

}  // namespace cairn::handlers
