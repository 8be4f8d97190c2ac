// chunk_plan.cc -- finds the chunks that the boxes touch and their sources.
#include <cairn/zarr/write/chunk_plan.h>

#include <cairn/array/box.h>
#include <cairn/error.h>
#include <cairn/zarr/metadata/chunk_grid.h>

#include <algorithm>

namespace cairn::inline v0::zarr {
namespace {

void check_part(const ArrayMetadata& metadata, const ArrayPart& part) {
  if (metadata.element_size == 0)
    throw Error(Code::kUnimplemented, "elements of type " + metadata.dtype_name +
                                          " have no fixed size and cannot be written");
  if (part.box.rank() != metadata.shape.size() || part.box.origin.size() != part.box.rank())
    throw Error(Code::kInvalidArgument, "box " + box_text(part.box) +
                                            " does not match array rank " +
                                            std::to_string(metadata.shape.size()));
  check_inside(part.box, metadata.shape);
  const ArrayView& from = part.from;
  if (from.shape != part.box.shape || from.strides.size() != part.box.rank())
    throw Error(Code::kInvalidArgument, "source shape " + shape_text(from.shape) +
                                            " does not match box shape " +
                                            shape_text(part.box.shape));
  const bool opaque = from.dtype == DType::kOpaque || metadata.dtype == DType::kOpaque;
  const bool same = from.dtype == metadata.dtype && from.element_size == metadata.element_size;
  if (opaque && !same)
    throw Error(Code::kInvalidArgument,
                "elements that Cairn does not interpret cannot be cast to " + metadata.dtype_name);
  if (!opaque && from.element_size != dtype_size(from.dtype))
    throw Error(Code::kInvalidArgument, "an element of " + std::string(dtype_name(from.dtype)) +
                                            " has " + std::to_string(dtype_size(from.dtype)) +
                                            " bytes, not " + std::to_string(from.element_size));
}

// Throws invalid_argument if two boxes share elements: the result would depend on their order.
void check_apart(const std::vector<ChunkSource>& sources) {
  for (std::size_t i = 1; i < sources.size(); ++i)
    for (std::size_t j = 0; j < i; ++j)
      if (intersect(sources[i].box, sources[j].box))
        throw Error(Code::kInvalidArgument,
                    "two boxes to write overlap: " + box_text(sources[i].box) + " and " +
                        box_text(sources[j].box));
}

// The most common case, which must be fast for checkpoints with many small tensors: a whole array
// that is one chunk.
bool is_one_chunk(const ArrayWrite& write) {
  const ArrayMetadata& metadata = write.array.metadata();
  return write.parts.size() == 1 && metadata.chunk_shape == metadata.shape &&
         write.parts[0].box.shape == metadata.shape;
}

// Returns the part of the array that a chunk covers.
Box chunk_box(const ArrayMetadata& metadata, const std::vector<std::int64_t>& position) {
  Box box{.origin = position, .shape = metadata.chunk_shape};
  for (std::size_t d = 0; d < box.rank(); ++d) {
    box.origin[d] *= box.shape[d];
    box.shape[d] = std::min(box.shape[d], metadata.shape[d] - box.origin[d]);
  }
  return box;
}

std::vector<ChunkSource> sources_of(const ArrayWrite& write, const Box& chunk) {
  std::vector<ChunkSource> sources;
  for (const ArrayPart& part : write.parts) {
    const auto shared = intersect(part.box, chunk);
    if (!shared) continue;
    sources.push_back({.box = relative_to(*shared, chunk.origin),
                       .from = subview(part.from, relative_to(*shared, part.box.origin))});
  }
  check_apart(sources);
  return sources;
}

std::vector<std::int64_t> position_of(const ArrayMetadata& metadata, std::int64_t chunk) {
  return grid_position(grid_shape(metadata.shape, metadata.chunk_shape), chunk);
}

}  // namespace

std::optional<ByteView> PlannedChunk::contiguous(const ArrayMetadata& metadata) const {
  if (sources.size() != 1 || !is_complete()) return std::nullopt;
  const ArrayView& from = sources[0].from;
  if (from.dtype != metadata.dtype || from.element_size != metadata.element_size ||
      !from.contiguous())
    return std::nullopt;
  return ByteView(from.data, static_cast<std::size_t>(given) * metadata.element_size);
}

ChunkPlan::ChunkPlan(std::span<const ArrayWrite> writes) : writes_(writes) {
  for (std::size_t i = 0; i < writes.size(); ++i)
    with_context([&] { return writes[i].label; }, [&] { add(i); });
}

void ChunkPlan::add(std::size_t number) {
  const ArrayWrite& write = writes_[number];
  const ArrayMetadata& metadata = write.array.metadata();
  if (is_one_chunk(write)) {
    check_part(metadata, write.parts[0]);
    units_.push_back({.write = number, .chunk = 0});
    return;
  }
  const Shape grid = grid_shape(metadata.shape, metadata.chunk_shape);
  const auto first = static_cast<std::ptrdiff_t>(units_.size());
  for (const ArrayPart& part : write.parts) {
    check_part(metadata, part);
    for (ChunkCursor chunk(part.box, metadata.chunk_shape); !chunk.done(); chunk.next())
      units_.push_back({.write = number, .chunk = grid_number(grid, chunk.part().position)});
  }
  if (write.parts.size() < 2) return;
  const auto own = units_.begin() + first;
  std::sort(own, units_.end(), [](const Unit& a, const Unit& b) { return a.chunk < b.chunk; });
  units_.erase(std::unique(own, units_.end(),
                           [](const Unit& a, const Unit& b) { return a.chunk == b.chunk; }),
               units_.end());
}

PlannedChunk ChunkPlan::chunk(std::size_t number) const {
  const ArrayWrite& write = write_of(number);
  const ArrayMetadata& metadata = write.array.metadata();
  PlannedChunk out;
  if (is_one_chunk(write)) {
    out.position.assign(metadata.shape.size(), 0);
    out.box = write.parts[0].box;
    out.sources.push_back({.box = out.box, .from = write.parts[0].from});
  } else {
    out.position = position_of(metadata, units_[number].chunk);
    out.box = chunk_box(metadata, out.position);
    out.sources = sources_of(write, out.box);
  }
  for (const ChunkSource& source : out.sources) out.given += element_count(source.box.shape);
  return out;
}

std::string ChunkPlan::where(std::size_t number) const {
  const ArrayWrite& write = write_of(number);
  const ArrayMetadata& metadata = write.array.metadata();
  return (write.label.empty() ? "" : write.label + ": ") + "chunk " +
         metadata.keys.key(position_of(metadata, units_[number].chunk));
}

}  // namespace cairn::inline v0::zarr
