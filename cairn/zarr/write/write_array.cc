// write_array.cc -- finds the chunks that the boxes touch and their sources, and writes them in
// parallel.
#include <cairn/zarr/write/write_array.h>

#include <cairn/array/box.h>
#include <cairn/error.h>
#include <cairn/zarr/codec/workspaces.h>
#include <cairn/zarr/metadata/chunk_grid.h>

#include <algorithm>
#include <utility>

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

std::int64_t volume(const Box& box) { return element_count(box.shape); }

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

// A chunk to be written.
struct Unit {
  std::size_t write = 0;
  std::int64_t chunk = 0;  // number in the array's grid
};

class Writer {
 public:
  Writer(std::span<const ArrayWrite> writes, ValueSink& sink, const WriteContext& context)
      : writes_(writes),
        sink_(sink),
        context_(context),
        executor_(context.executor ? *context.executor : default_executor()) {
    for (std::size_t i = 0; i < writes.size(); ++i)
      with_context([&] { return writes[i].label; }, [&] { plan(i); });
  }

  void run() {
    executor_.for_each(units_.size(), [&](std::size_t i) {
      with_context([&] { return where(units_[i]); }, [&] { write_chunk(units_[i]); });
    });
  }

 private:
  void plan(std::size_t number);
  void write_chunk(const Unit& unit);
  [[nodiscard]] std::vector<ChunkSource> sources_of(const ArrayWrite& write,
                                                    const Box& chunk) const;
  [[nodiscard]] std::string where(const Unit& unit) const;

  std::span<const ArrayWrite> writes_;
  ValueSink& sink_;
  const WriteContext& context_;
  Executor& executor_;
  std::vector<Unit> units_;
  Workspaces workspaces_;
};

std::vector<std::int64_t> position_of(const ArrayMetadata& metadata, const Unit& unit) {
  return grid_position(grid_shape(metadata.shape, metadata.chunk_shape), unit.chunk);
}

std::string Writer::where(const Unit& unit) const {
  const ArrayWrite& write = writes_[unit.write];
  const ArrayMetadata& metadata = write.array.metadata();
  return (write.label.empty() ? "" : write.label + ": ") + "chunk " +
         metadata.keys.key(position_of(metadata, unit));
}

void Writer::plan(std::size_t number) {
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

// Returns the part of the array that a chunk covers.
Box chunk_box(const ArrayMetadata& metadata, const std::vector<std::int64_t>& position) {
  Box box{.origin = position, .shape = metadata.chunk_shape};
  for (std::size_t d = 0; d < box.rank(); ++d) {
    box.origin[d] *= box.shape[d];
    box.shape[d] = std::min(box.shape[d], metadata.shape[d] - box.origin[d]);
  }
  return box;
}

std::vector<ChunkSource> Writer::sources_of(const ArrayWrite& write, const Box& chunk) const {
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

// Allocates memory for the chunk's current elements, which the parts overlay. It is not filled
// here.
Array old_elements(const ArrayMetadata& metadata, const Box& chunk) {
  return Array::allocate(metadata.dtype, metadata.element_size, chunk.shape);
}

void Writer::write_chunk(const Unit& unit) {
  const ArrayWrite& write = writes_[unit.write];
  const ArrayMetadata& metadata = write.array.metadata();
  const bool whole = is_one_chunk(write);
  const auto position =
      whole ? std::vector<std::int64_t>(metadata.shape.size(), 0) : position_of(metadata, unit);
  const Box chunk = whole ? write.parts[0].box : chunk_box(metadata, position);
  std::vector<ChunkSource> sources;
  if (whole) {
    sources.push_back({.box = chunk, .from = write.parts[0].from});
  } else {
    sources = sources_of(write, chunk);
  }
  std::int64_t written = 0;
  for (const ChunkSource& source : sources) written += volume(source.box);

  Array old;
  std::uint64_t reading = 0;
  if (written < volume(chunk) && write.array.store()) {
    old = old_elements(metadata, chunk);
    sources.insert(sources.begin(), {.box = Box::whole(chunk.shape), .from = old.view()});
    reading = old.bytes().size() + 2 * metadata.codecs.nbytes;
  }
  EncodeOptions encode = write.encode;
  // else the other threads would have nothing to do
  encode.threads = std::max<std::size_t>(executor_.threads() / units_.size(), 1);
  encode.executor = &executor_;
  ChunkEncoder encoder(metadata, encode);
  const std::uint64_t needed = encoder.begin(std::move(sources)) + reading;
  const auto held =
      context_.budget && needed > 0 ? context_.budget->acquire(needed) : ByteBudget::Lease();
  // Reads without the budget: this thread already holds its share.
  if (reading > 0) write.array.read(chunk, old.mutable_view(), MissingChunk::kFill);

  const Workspaces::Loan space(workspaces_);
  const Pieces& value = encoder.encode(space->decoded, space->encoded);
  const std::string key = write.array.chunk_key(position);
  if (value.size() > 0) {
    sink_.write(key, value.views());
  } else {
    sink_.remove(key);
  }
  if (context_.progress)
    context_.progress->done.fetch_add(static_cast<std::uint64_t>(written) * metadata.element_size,
                                      std::memory_order_relaxed);
}

}  // namespace

void write_boxes(std::span<const ArrayWrite> writes, ValueSink& sink, const WriteContext& context) {
  Writer(writes, sink, context).run();
}

}  // namespace cairn::inline v0::zarr
