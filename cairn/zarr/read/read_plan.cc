// read_plan.cc -- turns boxes into units of work. It asks the stores where values are, but reads no
// value.
#include <cairn/zarr/read/read_plan.h>

#include <cairn/array/box.h>
#include <cairn/error.h>
#include <cairn/zarr/read/shard_walk.h>

#include <algorithm>
#include <array>
#include <utility>

namespace cairn::inline v0::zarr {
namespace {

// Shards up to this size are read whole: that is cheaper than reading the index first.
constexpr std::uint64_t kWholeShard = std::uint64_t{256} << 10U;
// Rows closer than this are read together with the gap. In the time of a system call, about this
// many bytes can be copied.
constexpr std::int64_t kRowGap = std::int64_t{16} << 10U;
// The same for a store, in the time of a request.
constexpr auto kRemoteRowGap = static_cast<std::int64_t>(kRemoteGap);
// Strided raw parts are split until they span at most this many bytes, so that all threads get work
// and buffers stay small.
constexpr std::uint64_t kStridedPiece = std::uint64_t{4} << 20U;

void check_read(const BoxRead& read) {
  const ArrayMetadata& metadata = read.array->metadata();
  if (metadata.element_size == 0)
    throw Error(Code::kUnimplemented, "elements of type " + metadata.dtype_name +
                                          " have no fixed size and cannot be read");
  if (read.box->rank() != metadata.shape.size() || read.box->origin.size() != read.box->rank())
    throw Error(Code::kInvalidArgument, "box " + box_text(*read.box) +
                                            " does not match array rank " +
                                            std::to_string(metadata.shape.size()));
  check_inside(*read.box, metadata.shape);
  if (read.out->dtype != metadata.dtype || read.out->element_size != metadata.element_size)
    throw Error(
        Code::kInvalidArgument,
        "the destination's element type does not match the array's, " + metadata.dtype_name);
  if (read.out->shape != read.box->shape || read.out->strides.size() != read.box->rank())
    throw Error(Code::kInvalidArgument, "destination shape " + shape_text(read.out->shape) +
                                            " does not match box shape " +
                                            shape_text(read.box->shape));
}

std::uint64_t part_bytes(const BoxRead& read, const Shape& shape) {
  return static_cast<std::uint64_t>(element_count(shape)) * read.array->metadata().element_size;
}

void halve(std::size_t d, const Wanted& wanted, Wanted& first, Wanted& second) {
  const std::int64_t half = wanted.part.shape[d] / 2;
  first = second = wanted;
  first.part.shape[d] = first.out.shape[d] = half;
  second.part.shape[d] = second.out.shape[d] = wanted.part.shape[d] - half;
  second.part.origin[d] += half;
  second.out.data += half * second.out.strides[d];
}

std::uint64_t count_rows(const RawExtent& extent, const Box& part) {
  std::uint64_t rows = 1;
  for (std::size_t d = 0; d < extent.row_dims; ++d)
    rows *= static_cast<std::uint64_t>(part.shape[d]);
  return rows;
}

// Plans a whole stored value without steps; `wanted` is in encoded order.
void plan_raw(const BoxRead& read, const Unit& value, Wanted wanted, ReadPlan& plan) {
  const CodecChain& chain = *value.chain;
  const RawExtent extent = raw_extent(chain.shape, read.array->metadata().element_size, wanted.part,
                                      value.is_remote ? kRemoteRowGap : kRowGap);
  const bool direct = extent.gapless && !chain.swap_bytes && wanted.out.contiguous();
  const std::uint64_t rows = count_rows(extent, wanted.part);
  // Rows of their own are read at the same time.
  const bool apart = value.is_remote && rows > 1;
  if (!direct && (apart || rows * extent.row_span > kStridedPiece)) {
    const auto& shape = wanted.part.shape;
    const auto d = static_cast<std::size_t>(
        std::find_if(shape.begin(), shape.end(), [](std::int64_t n) { return n > 1; }) -
        shape.begin());
    Wanted first;
    Wanted second;
    halve(d, wanted, first, second);
    plan_raw(read, value, std::move(first), plan);
    return plan_raw(read, value, std::move(second), plan);
  }
  Unit unit{.kind = direct      ? UnitKind::kDirect
                    : rows == 1 ? UnitKind::kSpan
                                : UnitKind::kRows,
            .is_remote = value.is_remote,
            .file = value.file,
            .place = value.place,
            .offset = value.offset + extent.offset,
            .length = extent.span,
            .chain = &chain,
            .direct = direct ? wanted.out.data : nullptr,
            .nbytes = part_bytes(read, wanted.part.shape),
            .wanted = nullptr};
  if (!direct) unit.wanted = std::make_unique<const Wanted>(std::move(wanted));
  plan.units.push_back(std::move(unit));
}

void check_raw_size(const Unit& value) {
  if (value.length == value.chain->nbytes) return;
  throw Error(Code::kDataLoss, "chunk has " + std::to_string(value.length) + " bytes, expected " +
                                   std::to_string(value.chain->nbytes));
}

// Plans `wanted`, a part of the whole stored value of value.chain.
void plan_value(const BoxRead& read, Unit value, Wanted wanted, ReadPlan& plan) {
  const CodecChain& chain = *value.chain;
  if (chain.shard) {
    value.wanted = std::make_unique<const Wanted>(std::move(wanted));
    (value.length > kWholeShard ? plan.shards : plan.units).push_back(std::move(value));
    return;
  }
  if (chain.steps.empty()) {
    check_raw_size(value);
    return plan_raw(read, value, transposed(chain, std::move(wanted)), plan);
  }
  check_stored_size(chain, value.length);
  const bool in_place =
      !chain.swap_bytes &&
      lands_whole(chain, chain.order.empty() ? wanted : transposed(chain, wanted));
  if (in_place) {
    value.direct = wanted.out.data;
  } else {
    value.wanted = std::make_unique<const Wanted>(std::move(wanted));
  }
  plan.units.push_back(std::move(value));
}

}  // namespace

RawExtent raw_extent(const Shape& chunk_shape, std::size_t element_size, const Box& part) {
  return raw_extent(chunk_shape, element_size, part, kRowGap);
}

RawExtent raw_extent(const Shape& chunk_shape, std::size_t element_size, const Box& part,
                     std::int64_t row_gap) {
  const auto strides = c_strides(chunk_shape, element_size);
  RawExtent extent{
      .offset = 0, .span = element_size, .row_dims = 0, .row_span = element_size, .gapless = false};
  std::uint64_t wanted = element_size;
  for (std::size_t d = chunk_shape.size(); d-- > 0;) {
    const std::int64_t n = part.shape[d];
    extent.offset += static_cast<std::uint64_t>(part.origin[d] * strides[d]);
    wanted *= static_cast<std::uint64_t>(n);
    if (n == 1) continue;
    const auto reach = static_cast<std::uint64_t>(strides[d] * (n - 1));
    // `span` is that of the dimensions inside this one. It is the row as long as no dimension was
    // too spread out.
    if (extent.row_dims == 0 && strides[d] - static_cast<std::int64_t>(extent.span) > row_gap)
      extent.row_dims = d + 1;
    if (extent.row_dims == 0) extent.row_span += reach;
    extent.span += reach;
  }
  extent.gapless = extent.span == wanted;
  return extent;
}

namespace {

std::vector<std::int64_t> chunk_position(const ArrayMetadata& metadata, const Place& place) {
  return grid_position(grid_shape(metadata.shape, metadata.chunk_shape), place.chunk);
}

}  // namespace

std::string chunk_key(std::span<const BoxRead> reads, const Place& place) {
  const ZarrArray& array = *reads[place.read].array;
  return array.chunk_key(chunk_position(array.metadata(), place));
}

std::string where(std::span<const BoxRead> reads, const Place& place) {
  const BoxRead& read = reads[place.read];
  const ArrayMetadata& metadata = read.array->metadata();
  std::string text = read.label.empty() ? "" : std::string(read.label) + ": ";
  text += "chunk " + metadata.keys.key(chunk_position(metadata, place)) + " (" +
          read.array->store()->describe(chunk_key(reads, place)) + ")";
  if (place.entry >= 0) text += ", " + shard_entry_text(place.entry);
  return text;
}

Planner::Planner(std::span<const BoxRead> reads, FileTable& files) : reads_(reads), files_(&files) {
  for (const BoxRead& read : reads)
    with_context([&] { return read.label; }, [&] { check_read(read); });
}

bool Planner::plan_some(std::size_t limit, ReadPlan& plan) {
  plan.units.reserve(plan.units.size() + std::min(limit, reads_.size() - read_));
  while (read_ < reads_.size()) {
    const BoxRead& read = reads_[read_];
    if (!cursor_) {
      if (plan.units.size() + plan.shards.size() >= limit) return true;
      if (read.box->empty() || plan_only_chunk(plan)) {
        ++read_;
        continue;
      }
      grid_ = grid_shape(read.array->metadata().shape, read.array->metadata().chunk_shape);
      cursor_.emplace(*read.box, read.array->metadata().chunk_shape);
    }
    for (; !cursor_->done(); cursor_->next()) {
      if (plan.units.size() + plan.shards.size() >= limit) return true;
      plan_chunk(cursor_->part(), plan);
    }
    cursor_.reset();
    ++read_;
  }
  return false;
}

// The most common case, which must be fast for checkpoints with many small tensors: a whole array
// that is one chunk. Returns false for other cases.
bool Planner::plan_only_chunk(ReadPlan& plan) {
  static constexpr std::array<std::int64_t, 64> kZeros{};
  const BoxRead& read = reads_[read_];
  const ArrayMetadata& metadata = read.array->metadata();
  const CodecChain& chain = metadata.codecs;
  const bool simple = read.box->shape == metadata.chunk_shape &&
                      metadata.shape == metadata.chunk_shape && chain.order.empty() &&
                      !chain.shard && !chain.swap_bytes && metadata.shape.size() <= kZeros.size() &&
                      read.out->contiguous();
  if (!simple) return false;
  Unit unit = locate(std::span(kZeros).first(metadata.shape.size()));
  unit.direct = read.out->data;
  unit.nbytes = chain.nbytes;
  if (chain.steps.empty() && unit.kind == UnitKind::kValue) {
    unit.kind = UnitKind::kDirect;
    with_context([&] { return where(reads_, unit.place); }, [&] { check_raw_size(unit); });
  } else if (unit.kind == UnitKind::kValue) {
    with_context([&] { return where(reads_, unit.place); },
                 [&] { check_stored_size(chain, unit.length); });
  }
  plan.units.push_back(std::move(unit));
  return true;
}

// Returns a unit for the whole stored value: kValue if the store knows its location, else kByKey.
Unit Planner::locate(std::span<const std::int64_t> position) const {
  const ZarrArray& array = *reads_[read_].array;
  Unit unit{.kind = UnitKind::kByKey,
            .file = kNoFile,
            .place = {.read = read_, .chunk = 0, .entry = -1},
            .chain = &array.metadata().codecs,
            .wanted = nullptr};
  if (const auto location = array.store()->locate(array.chunk_key(position))) {
    unit.kind = UnitKind::kValue;
    unit.file = files_->id(*location);
    unit.is_remote = location->folder && !location->folder->is_local();
    unit.offset = location->offset;
    unit.length = location->length;
  }
  return unit;
}

void Planner::plan_chunk(const ChunkPart& part, ReadPlan& plan) {
  const BoxRead& read = reads_[read_];
  Unit unit = locate(part.position);
  const Place place{.read = read_, .chunk = grid_number(grid_, part.position), .entry = -1};
  unit.place = place;
  unit.nbytes = part_bytes(read, part.in_chunk.shape);
  Wanted wanted{.part = part.in_chunk, .out = subview(*read.out, part.in_box)};
  if (unit.kind == UnitKind::kByKey) {
    unit.wanted = std::make_unique<const Wanted>(std::move(wanted));
    plan.units.push_back(std::move(unit));
    return;
  }
  with_context([&] { return where(reads_, place); },
               [&] { plan_value(read, std::move(unit), std::move(wanted), plan); });
}

void plan_shard(std::span<const BoxRead> reads, const Unit& shard,
                const std::vector<ShardEntry>& index, ReadPlan& plan) {
  const BoxRead& read = reads[shard.place.read];
  const ShardCodec& codec = *shard.chain->shard;
  const Wanted wanted = transposed(*shard.chain, *shard.wanted);
  const auto add = [&](std::int64_t number, const ShardEntry& entry, const ChunkPart& part) {
    Wanted inner{.part = part.in_chunk, .out = subview(wanted.out, part.in_box)};
    const Place place{.read = shard.place.read, .chunk = shard.place.chunk, .entry = number};
    Unit unit{.kind = UnitKind::kMissing,
              .file = kNoFile,
              .place = place,
              .chain = &codec.codecs,
              .nbytes = part_bytes(read, inner.part.shape),
              .wanted = nullptr};
    if (entry.absent()) {
      unit.wanted = std::make_unique<const Wanted>(std::move(inner));
      plan.units.push_back(std::move(unit));
      return;
    }
    unit.kind = UnitKind::kValue;
    unit.file = shard.file;
    unit.is_remote = shard.is_remote;
    unit.offset = shard.offset + entry.offset;
    unit.length = entry.nbytes;
    with_context([&] { return where(reads, place); },
                 [&] { plan_value(read, std::move(unit), std::move(inner), plan); });
  };
  for_each_inner_chunk(codec, index, wanted.part, add);
}

}  // namespace cairn::inline v0::zarr
