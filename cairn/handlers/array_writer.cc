// array_writer.cc -- plans the arrays of a pytree and writes them.
#include <cairn/handlers/array_writer.h>

#include <cairn/array/box.h>
#include <cairn/array/byte_count.h>
#include <cairn/zarr/metadata/chunk_grid.h>
#include <cairn/zarr/write/write_small.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

namespace cairn::inline v0::handlers {
namespace {

// The memory is divided equally: a batch of fetched elements, and its encoding.
constexpr std::uint64_t kShares = 2;
// An array that is fetched in parts is cut into chunks of at most this share of a batch.
constexpr std::uint64_t kChunksOfBatch = 4;
// Where no divisor of an extent gives chunks of the usual size, they may be this many times as
// large. That is better than one chunk.
constexpr std::int64_t kLargerChunk = 4;
constexpr std::size_t kBlock = 32;  // metadata documents that one thread writes in a row

// The shape of a slab of whole chunks, with at most `limit` bytes of elements if possible. It has
// as many of the last dimensions whole as fit, some rows of chunks of the dimension before them,
// and single chunks of the others.
Shape slab_shape(const Shape& shape, const Shape& chunk, DType dtype, std::uint64_t limit) {
  Shape slab = shape;
  for (std::size_t d = 0; d < slab.size() && byte_count(slab, dtype) > limit; ++d) {
    slab[d] = std::min(shape[d], chunk[d]);
    const std::uint64_t row = byte_count(slab, dtype);
    if (row <= limit)
      slab[d] = std::min(shape[d], chunk[d] * static_cast<std::int64_t>(limit / row));
  }
  return slab;
}

Shape at_least_one(Shape shape) {
  for (std::int64_t& extent : shape) extent = std::max<std::int64_t>(1, extent);
  return shape;
}

void check_divides(const char* what, const Shape& chunk, const char* whole_is, const Shape& whole) {
  bool divides = chunk.size() == whole.size();
  for (std::size_t d = 0; divides && d < chunk.size(); ++d)
    divides = chunk[d] > 0 && whole[d] % chunk[d] == 0;
  if (!divides)
    throw Error(Code::kInvalidArgument, std::string(what) + " " + shape_text(chunk) +
                                            " does not divide " + whole_is + ", " +
                                            shape_text(whole));
}

}  // namespace

ArrayWriter::ArrayWriter(std::vector<const StoreArray*> arrays, ArrayWriteOptions options)
    : arrays_(std::move(arrays)), options_(std::move(options)) {
  opened_.reserve(arrays_.size());
  described_.reserve(arrays_.size());
  std::uint64_t total = 0;
  for (const StoreArray* array : arrays_) total += weight_of(*array);
  WorkPartition line(options_.share, total);
  for (std::size_t i = 0; i < arrays_.size(); ++i) {
    const StoreArray& array = *arrays_[i];
    with_context([&] { return array.name; },
                 [&] {
                   const Described& described = described_kind(i).second;
                   described_.push_back(&described);
                   opened_.emplace_back(nullptr, array.name, described.metadata);
                   check_fetch(i);
                   add_areas(i, line);
                 });
  }
  const auto before = [&](const Area& a, const Area& b) {
    return arrays_[a.array]->priority < arrays_[b.array]->priority;
  };
  if (!std::is_sorted(areas_.begin(), areas_.end(), before))
    std::stable_sort(areas_.begin(), areas_.end(), before);
}

// The bytes of elements that are fetched at once.
std::uint64_t ArrayWriter::fetch_bytes() const {
  return options_.copies.bytes != 0 ? options_.copies.bytes : options_.memory / kShares;
}

// Throws if the array is fetched by chunks of which the limit admits not even one.
void ArrayWriter::check_fetch(std::size_t number) const {
  const StoreArray& array = *arrays_[number];
  const bool is_fetched =
      array.parts ? std::any_of(array.parts->begin(), array.parts->end(),
                                [](const StorePart& part) { return part.from.data == nullptr; })
                  : array.data == nullptr;
  if (!is_fetched || options_.copies.limiter == nullptr) return;
  const std::uint64_t size = padded_size(byte_count(chunk_shape(number), array.source_dtype));
  if (size > fetch_bytes())
    throw Error(Code::kInvalidArgument,
                "one chunk of it has " + std::to_string(size) + " bytes, but only " +
                    std::to_string(fetch_bytes()) +
                    " bytes may be copied from devices at once; store it in smaller chunks or "
                    "raise save_device_host_concurrent_gb");
}

std::optional<std::int64_t> ArrayWriter::chunk_target(const StoreArray& array) const {
  std::optional<std::int64_t> target =
      array.chunk_byte_size ? array.chunk_byte_size : options_.chunk_bytes;
  const Shape& piece = piece_shape(array);
  if (options_.file_bytes)
    target =
        zarr::effective_chunk_bytes(target, *options_.file_bytes, byte_count(piece, array.dtype));
  // If processes share an array, its chunks must not depend on which of them has it in memory.
  const bool limited =
      array.parts
          ? byte_count(piece, array.source_dtype) > fetch_bytes()
          : array.data == nullptr && byte_count(array.shape, array.source_dtype) > fetch_bytes();
  if (limited) {
    const auto limit = static_cast<std::int64_t>(
        std::max<std::uint64_t>(fetch_bytes() / kChunksOfBatch, dtype_size(array.dtype)));
    target = std::min(target.value_or(limit), limit);
  }
  return target;
}

// A user who chooses small files chooses the chunks, too: they are those of Orbax.
bool ArrayWriter::has_free_chunks(const StoreArray& array) const {
  const std::int64_t file_bytes = options_.file_bytes.value_or(0);
  if (file_bytes != 0 && file_bytes < options_.free_chunk_bytes) return false;
  return !array.chunk_byte_size && !options_.chunk_bytes && array.shard_axes.empty() &&
         options_.compression.method != Compression::kNone;
}

// Neighbours are often of one kind, so the kind of the array before is compared first.
const std::pair<const ArrayWriter::Kind, ArrayWriter::Described>& ArrayWriter::described_kind(
    std::size_t number) {
  const StoreArray& array = *arrays_[number];
  const bool is_raw = !options_.is_raw.empty() && options_.is_raw[number];
  const std::optional<std::int64_t> target = chunk_target(array);
  const bool is_free = has_free_chunks(array);
  const Shape& piece = piece_shape(array);
  if (last_kind_ != nullptr) {
    const Kind& last = last_kind_->first;
    if (last.dtype == array.dtype && last.shape == array.shape && last.piece == piece &&
        last.chunk_bytes == target && last.is_free == is_free &&
        last.shard_axes == array.shard_axes && last.write_chunk == array.write_chunk_shape &&
        last.read_chunk == array.read_chunk_shape && last.is_raw == is_raw)
      return *last_kind_;
  }
  Kind kind{array.dtype,
            array.shape,
            piece,
            target,
            is_free,
            array.shard_axes,
            array.write_chunk_shape,
            array.read_chunk_shape,
            is_raw};
  auto found = kinds_.find(kind);
  if (found == kinds_.end()) {
    Described described = describe(kind);
    found = kinds_.emplace(std::move(kind), std::move(described)).first;
  }
  last_kind_ = &*found;
  return *found;
}

std::uint64_t ArrayWriter::weight_of(const StoreArray& array) const {
  return WorkPartition::weight(byte_count(array.shape, array.dtype));
}

ArrayWriter::Described ArrayWriter::describe(const Kind& kind) const {
  zarr::NewArray made;
  made.zarr_format = options_.zarr_format;
  made.shape = kind.shape;
  made.dtype = kind.dtype;
  made.compression = kind.is_raw ? Compression(Compression::kNone) : options_.compression;
  made.crc32c = kind.is_raw;
  set_chunks(kind, made);
  Described out;
  out.metadata = std::make_shared<const zarr::ArrayMetadata>(zarr::make_metadata(made));
  out.text = zarr::metadata_text(*out.metadata);
  out.is_small = zarr::is_small_whole(*out.metadata);
  return out;
}

void ArrayWriter::set_chunks(const Kind& kind, zarr::NewArray& made) const {
  if (kind.write_chunk || kind.read_chunk) {
    if (options_.zarr_format != 3)
      throw Error(Code::kInvalidArgument,
                  "write_chunk_shape and read_chunk_shape are for Zarr v3, whose chunks have "
                  "chunks inside; set use_zarr3");
    if (!kind.shard_axes.empty())
      throw Error(Code::kInvalidArgument,
                  "shard_axes cannot be combined with write_chunk_shape or read_chunk_shape: both "
                  "set the chunk shape");
    made.chunk_shape = kind.write_chunk.value_or(at_least_one(kind.piece));
    made.inner_chunk_shape = kind.read_chunk.value_or(made.chunk_shape);
    check_divides("write_chunk_shape", made.chunk_shape, "the pieces that the array is written in",
                  at_least_one(kind.piece));
    check_divides(
        "read_chunk_shape", made.inner_chunk_shape,
        kind.write_chunk ? "write_chunk_shape" : "the pieces that the array is written in",
        made.chunk_shape);
    return;
  }
  if (kind.is_free) {
    const auto cut = [&](std::int64_t most) {
      most = std::min(kind.chunk_bytes.value_or(most), most);
      return zarr::leading_chunk_shape(kind.piece, dtype_size(kind.dtype), most);
    };
    auto chunk = cut(options_.free_chunk_bytes);
    if (!chunk) chunk = cut(options_.free_chunk_bytes * kLargerChunk);
    if (chunk) {
      made.chunk_shape = *std::move(chunk);
      return;
    }
  }
  made.chunk_shape =
      zarr::choose_chunk_shape(kind.shape, kind.piece, dtype_size(kind.dtype),
                               {.bytes = kind.chunk_bytes, .shard_axes = kind.shard_axes});
}

std::string ArrayWriter::metadata_key(std::size_t array) const {
  const std::string& name = arrays_[array]->name;
  const std::string& key = arrays_[array]->metadata_key;
  return key.empty() ? zarr::ZarrArray::metadata_key(name, options_.zarr_format)
                     : zarr::ZarrArray::key_prefix(name) + key;
}

bool ArrayWriter::has_key(std::size_t array, std::string_view key) const {
  const zarr::ArrayMetadata& metadata = opened_[array].metadata();
  if (zarr::ZarrArray::key_prefix(arrays_[array]->name).append(key) == metadata_key(array))
    return true;
  const auto position = metadata.keys.position(key, metadata.shape.size());
  const Shape grid = zarr::grid_shape(metadata.shape, metadata.chunk_shape);
  return position && std::equal(position->begin(), position->end(), grid.begin(), grid.end(),
                                [](std::int64_t at, std::int64_t end) { return at < end; });
}

void ArrayWriter::count_total(std::uint64_t bytes) {
  if (options_.progress != nullptr) options_.progress->total += bytes;
}

void ArrayWriter::add_areas(std::size_t number, WorkPartition& line) {
  const StoreArray& array = *arrays_[number];
  if (array.parts) {
    for (const StorePart& part : *array.parts) {
      count_total(byte_count(part.box.shape, array.dtype));
      areas_.push_back({number, part.box, part.from.data != nullptr ? &part.from : nullptr});
    }
    return;
  }
  if (options_.share.count > 1) return add_dealt(number, line);
  const std::uint64_t bytes = byte_count(array.shape, array.dtype);
  if (bytes == 0) return;
  count_total(bytes);
  const bool is_small =
      described_[number]->is_small && array.data != nullptr && array.source_dtype == array.dtype;
  areas_.push_back({number, std::nullopt, nullptr, is_small});
}

// Adds this process's chunks, in as few boxes as possible.
void ArrayWriter::add_dealt(std::size_t number, WorkPartition& line) {
  const StoreArray& array = *arrays_[number];
  const Shape& chunk = chunk_shape(number);
  const Shape grid = zarr::grid_shape(array.shape, chunk);
  const auto run = line.next(weight_of(array), static_cast<std::uint64_t>(element_count(grid)));
  for (Box& box : boxes_of_run(grid, static_cast<std::int64_t>(run.begin),
                               static_cast<std::int64_t>(run.end))) {
    for (std::size_t d = 0; d < box.rank(); ++d) {
      box.origin[d] *= chunk[d];
      box.shape[d] = std::min(box.shape[d] * chunk[d], array.shape[d] - box.origin[d]);
    }
    count_total(byte_count(box.shape, array.dtype));
    areas_.push_back({number, std::move(box)});
  }
}

// Works in parallel: if parameters are folders, each metadata is a file of its own and waits for
// the directory on disk, or for an object store.
void ArrayWriter::write_metadata(ValueSink& sink) const {
  Executor& executor = options_.executor != nullptr ? *options_.executor : default_executor();
  const std::size_t size = sink.waits() ? 1 : kBlock;
  executor.for_each((opened_.size() + size - 1) / size, [&](std::size_t block) {
    for (std::size_t i = block * size; i < std::min(opened_.size(), (block + 1) * size); ++i) {
      const ByteView text = as_bytes(described_[i]->text);
      sink.write(metadata_key(i), std::span(&text, 1));
    }
  });
}

void ArrayWriter::write(ValueSink& sink, const FetchBoxesFn& fetch) {
  write_metadata(sink);
  write_values(sink, fetch);
}

// Iterates over the portions of all areas.
class ArrayWriter::Portions {
 public:
  explicit Portions(const ArrayWriter& writer) : writer_(writer) { load(); }

  // nullptr: all portions are done.
  [[nodiscard]] const Portion* current() const { return current_ ? &*current_ : nullptr; }
  Portion take() {
    Portion taken = *std::move(current_);
    load();
    taken.is_last = !current_ || current_->array != taken.array;
    return taken;
  }

 private:
  // Makes the next portion the current one.
  void load() {
    current_.reset();
    if (slab_ && slab_->done()) {
      slab_.reset();
      ++area_;
    }
    while (area_ < writer_.areas_.size() && writer_.small_are_written_ &&
           writer_.areas_[area_].is_small)
      ++area_;
    if (area_ == writer_.areas_.size()) return;
    const Area& area = writer_.areas_[area_];
    const StoreArray& array = *writer_.arrays_[area.array];
    const bool in_memory = area.from != nullptr || (!array.parts && array.data != nullptr);
    if (in_memory || (area.box && area.box->empty())) {
      current_ = {area.array, area.box ? *area.box : Box::whole(array.shape), 0, area.from};
      ++area_;
      return;
    }
    if (!slab_) begin(area, array);
    Box slab = slab_->part().in_box;
    if (area.box)
      for (std::size_t d = 0; d < slab.rank(); ++d) slab.origin[d] += area.box->origin[d];
    const std::uint64_t size = byte_count(slab.shape, array.source_dtype);
    current_ = {area.array, std::move(slab), size};
    slab_->next();
  }

  // Begins a box that is fetched. It is fetched at once if it fits into memory and if its chunks
  // are few enough to be planned together.
  void begin(const Area& area, const StoreArray& array) {
    constexpr std::uint64_t kMostChunks = std::uint64_t{1} << 20U;
    const DType dtype = array.source_dtype;
    const Shape& chunk = writer_.chunk_shape(area.array);
    std::uint64_t limit = writer_.fetch_bytes();
    if (const std::uint64_t chunk_bytes = byte_count(chunk, dtype);
        chunk_bytes < limit / kMostChunks)
      limit = chunk_bytes * kMostChunks;
    // Chunks count from the box's own corner, which is also a chunk's corner.
    const Shape& shape = area.box ? area.box->shape : array.shape;
    local_ = Box::whole(shape);
    slab_shape_ =
        byte_count(shape, dtype) <= limit ? shape : slab_shape(shape, chunk, dtype, limit);
    slab_.emplace(local_, slab_shape_);
  }

  const ArrayWriter& writer_;
  std::size_t area_ = 0;
  Box local_;         // the area, in coordinates from its own corner
  Shape slab_shape_;  // the shape of the slabs it is cut into
  std::optional<zarr::ChunkCursor> slab_;
  std::optional<Portion> current_;
};

void ArrayWriter::tell(std::size_t array, std::function<void()> StoreArray::*what) const {
  if (arrays_[array]->*what) (arrays_[array]->*what)();
}

// Tells of the arrays of which this process stores nothing.
void ArrayWriter::tell_about_others() const {
  std::vector<bool> stored(arrays_.size(), false);
  for (const Area& area : areas_) stored[area.array] = true;
  for (std::size_t i = 0; i < arrays_.size(); ++i) {
    if (stored[i]) continue;
    tell(i, &StoreArray::on_copied);
    tell(i, &StoreArray::on_written);
  }
}

void ArrayWriter::write_values(ValueSink& sink, const FetchBoxesFn& fetch) {
  tell_about_others();
  std::vector<std::size_t> ended;  // arrays whose last portion is done
  const auto tell_ended = [&] {
    for (const std::size_t array : std::exchange(ended, {})) {
      tell(array, &StoreArray::on_copied);
      tell(array, &StoreArray::on_written);
    }
  };
  const auto is_to_write = [&](const Portion& portion) {
    if (!is_done(portion)) return true;
    if (options_.progress != nullptr)
      options_.progress->done += byte_count(portion.box.shape, arrays_[portion.array]->dtype);
    if (portion.is_last) ended.push_back(portion.array);
    return false;
  };
  const auto write = [&](auto writes, const zarr::WriteContext& context) {
    zarr::write_boxes(writes, sink, context);
    tell_ended();
  };
  if (earlier_ == nullptr) write_small(sink);
  for_each_batch(is_to_write, fetch, write, true);
  tell_ended();
}

// Small arrays are in memory and need no batches, boxes and views.
void ArrayWriter::write_small(ValueSink& sink) {
  std::vector<zarr::SmallWrite> writes;
  for (const Area& area : areas_)
    if (area.is_small) writes.push_back({&opened_[area.array], arrays_[area.array]->data});
  zarr::write_small(writes, sink, zarr::encode_options(options_.compression, options_.choice),
                    {.executor = options_.executor,
                     .budget = nullptr,
                     .progress = options_.progress,
                     .reusable = nullptr,
                     .fingerprints = options_.fingerprints});
  small_are_written_ = true;
  for (const Area& area : areas_) {
    if (!area.is_small) continue;
    tell(area.array, &StoreArray::on_copied);
    tell(area.array, &StoreArray::on_written);
  }
}

void ArrayWriter::for_each_batch(const std::function<bool(const Portion&)>& wanted,
                                 const FetchBoxesFn& fetch, const BatchFn& use, bool announces) {
  std::vector<Portion> batch;
  std::uint64_t fetched = 0;
  const auto use_all = [&] {
    if (!batch.empty()) use_batch(batch, fetch, use, announces);
    batch.clear();
    fetched = 0;
  };
  const auto goes_along = [&](const Portion& portion) {
    return batch.empty() ||
           (arrays_[portion.array]->priority == arrays_[batch.front().array]->priority &&
            fetched + padded_size(portion.fetched) <= fetch_bytes());
  };
  for (Portions portions(*this); portions.current() != nullptr;) {
    Portion portion = portions.take();
    if (!wanted(portion)) continue;
    if (!goes_along(portion)) use_all();
    fetched += padded_size(portion.fetched);
    batch.push_back(std::move(portion));
  }
  use_all();
}

// The portion's own elements, or else contiguous elements at `data`.
ArrayView ArrayWriter::source_of(const Portion& portion, const std::byte* data) const {
  if (portion.from != nullptr) return *portion.from;
  const DType dtype = arrays_[portion.array]->source_dtype;
  const std::size_t element_size = dtype_size(dtype);
  return {.data = data,
          .dtype = dtype,
          .element_size = element_size,
          .shape = portion.box.shape,
          .strides = c_strides(portion.box.shape, element_size)};
}

void ArrayWriter::use_batch(std::span<const Portion> batch, const FetchBoxesFn& fetch,
                            const BatchFn& use, bool announces) {
  std::uint64_t size = 0;
  for (const Portion& portion : batch) size += padded_size(portion.fetched);
  std::optional<ByteLimiter::Reservation> held;
  if (options_.copies.limiter && size != 0)
    held.emplace(options_.copies.limiter->reserve(static_cast<std::int64_t>(size)));
  Buffer buffer(static_cast<std::size_t>(size));
  std::byte* at = buffer.data();
  std::vector<ReadRequest> requests;
  std::vector<zarr::ArrayWrite> writes;
  writes.reserve(batch.size());
  for (const Portion& portion : batch) {
    const StoreArray& array = *arrays_[portion.array];
    const std::byte* data = portion.from != nullptr ? portion.from->data : array.data;
    if (data == nullptr) {
      const MutableByteView room(at, static_cast<std::size_t>(portion.fetched));
      requests.push_back(
          {portion.array, portion.box, make_view(room, array.source_dtype, portion.box.shape)});
      data = at;
      at += padded_size(portion.fetched);
    }
    const ArrayView from = source_of(portion, data);
    writes.push_back({opened_[portion.array],
                      {{portion.box, from}},
                      array.name,
                      zarr::encode_options(options_.compression, options_.choice)});
  }
  fill(std::move(requests), fetch);
  for (const Portion& portion : batch)
    if (announces && portion.is_last) tell(portion.array, &StoreArray::on_copied);
  ByteBudget budget(options_.memory / kShares - options_.upload_memory);
  use(writes, {.executor = options_.executor,
               .budget = &budget,
               .progress = options_.progress,
               .reusable = earlier_,
               .fingerprints = options_.fingerprints});
  for (const Portion& portion : batch)
    if (announces && portion.is_last) tell(portion.array, &StoreArray::on_written);
}

// Copies the elements of arrays that can be copied; `fetch` supplies those of the others together.
void ArrayWriter::fill(std::vector<ReadRequest> requests, const FetchBoxesFn& fetch) const {
  const auto is_copied = [&](const ReadRequest& request) {
    return static_cast<bool>(arrays_[request.tensor]->copy);
  };
  const auto rest = std::stable_partition(requests.begin(), requests.end(), is_copied);
  for (auto at = requests.begin(); at != rest; ++at) arrays_[at->tensor]->copy(at->box, at->out);
  if (rest != requests.end()) fetch({rest, requests.end()});
}

}  // namespace cairn::inline v0::handlers
