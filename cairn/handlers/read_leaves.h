// read_leaves.h -- what all handlers of stored arrays do on restore: read many of them as one plan, in the element types asked for.
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

// Those that keep their type are read straight into place; the others are converted, a bounded part of them at a time.
void read_leaves(const ItemReader& reader, std::span<const LeafRead> reads);

// What is stored under the names of the leaves.
std::vector<TensorInfo> stored_arrays(const ItemReader& reader, std::span<const ParamInfo> infos);

// Of stored arrays: typestr, dtype, shape and chunks, `infos` by `infos`.
std::vector<ValueMetadata> array_value_metadata(std::span<const ParamInfo> infos, std::string_view typestr);

// The reader, or writer, that all infos of a call share. Throws invalid_argument if there is none, and if the infos do not
// agree on whether the checkpoint is an OCDBT one, or do not say.
const ItemReader& reader_of(std::span<const ParamInfo> infos);
ItemWriter& writer_of(std::span<const ParamInfo> infos);

// The arguments as those of any leaf.
std::optional<DType> dtype_of(const AnyRestoreArgs& args);

// Throws invalid_argument for an array without elements.
void check_not_empty(const ParamInfo& info, std::span<const std::int64_t> shape);

}  // namespace cairn::handlers
