// read_leaves.h -- what all handlers of stored arrays do on restore: they read many arrays as one
// plan and convert them to the requested element types.
#pragma once

#include <cairn/orbax/handlers.h>
#include <cairn/orbax/item_storage.h>

#include <span>
#include <string_view>
#include <vector>

namespace cairn::inline v0::handlers {

// Reads a box of a stored array into memory of any element type.
struct LeafRead {
  std::string_view name;
  const TensorInfo* stored = nullptr;
  Box box;
  MutableArrayView out;
};

// Performs all reads, which are of the leaves `infos`. A read that keeps its type goes straight to
// its destination. The others are converted on the reader's threads. The stored elements that are
// held at a time take at most the bytes that the limiter of the leaves grants, or one chunk if that
// is more.
void read_leaves(const ItemReader& reader, std::span<const ParamInfo> infos,
                 std::span<const LeafRead> reads);

// The stored arrays under the names of the leaves. `metadata_key` is the name of their metadata
// ("": the usual one).
std::vector<TensorInfo> stored_arrays(const ItemReader& reader, std::span<const ParamInfo> infos,
                                      const std::string& metadata_key);

// The metadata of stored arrays, parallel to `infos`: typestr, dtype, shape and chunks.
std::vector<ValueMetadata> array_value_metadata(std::span<const ParamInfo> infos,
                                                std::string_view typestr,
                                                const std::string& metadata_key);

// The reader, or writer, that all infos of a call share. Throws invalid_argument if they have none,
// or if they disagree on whether the checkpoint is an OCDBT one, or do not state it.
const ItemReader& reader_of(std::span<const ParamInfo> infos);
ItemWriter& writer_of(std::span<const ParamInfo> infos);

// The field that the arguments have, whichever kind they are.
std::optional<DType> dtype_of(const AnyRestoreArgs& args);
std::optional<RestoreType> restore_type_of(const AnyRestoreArgs& args);

// Drops the entries of a partition spec beyond the last dimension that split nothing: JAX ignores
// them on restore.
Sharding for_rank(Sharding sharding, std::size_t rank);

// Describes an array to be stored, without its elements.
StoreArray store_array(const ParamInfo& info, const SaveArgs& args, DType dtype, Shape shape);

}  // namespace cairn::inline v0::handlers
