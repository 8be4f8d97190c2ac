// read_boxes.cc -- executes a read plan, in parallel and within the byte budget.
//
// Of files in a store, up to 32 tasks wait for an answer at once (base/executor.h), and decode in
// turns. A value of more than one request is decoded while its pieces arrive.
#include <cairn/array/box.h>
#include <cairn/base/byte_io.h>
#include <cairn/base/checksum.h>
#include <cairn/codec/zstd_frame.h>
#include <cairn/error.h>
#include <cairn/io/tree/read_forward.h>
#include <cairn/zarr/codec/checksum_step.h>
#include <cairn/zarr/codec/workspaces.h>
#include <cairn/zarr/read/read_tasks.h>
#include <cairn/zarr/read/value_streams.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <utility>

namespace cairn::inline v0::zarr {
namespace {

constexpr std::size_t kUnitsAtATime = std::size_t{1} << 16U;  // units planned at a time
// values of at least this size are decoded only as far as needed
constexpr std::uint64_t kPartial = std::uint64_t{4} << 20U;
// encoded values of at least this size are decoded while they are read
constexpr std::uint64_t kStream = std::uint64_t{2} << 20U;
// Raw values with a checksum of at least this size are read piece by piece. Smaller ones fit the
// cache.
constexpr std::uint64_t kChecksummed = std::uint64_t{1} << 20U;
constexpr std::size_t kMostWindow = 32;   // pieces of a long value in a store that are held at once
constexpr std::size_t kReadersAhead = 2;  // of such values, beside those that fill the connections

class Runner {
 public:
  Runner(std::span<const BoxRead> reads, const ReadContext& context)
      : reads_(reads),
        context_(context),
        executor_(context.executor ? *context.executor : default_executor()) {}

  void run() {
    Planner planner(reads_, files_);
    for (bool more = true; more;) {
      ReadPlan plan;
      more = planner.plan_some(kUnitsAtATime, plan);
      while (!plan.shards.empty()) open_shards(plan);
      units_ = std::move(plan.units);
      const std::vector<Task> tasks = make_tasks(reads_, units_);
      executor_.for_each(tasks.size(), [&](std::size_t i) { run_task(tasks[i]); });
    }
  }

 private:
  void open_shards(ReadPlan& plan);
  void open_shard(const Unit& shard, ReadPlan& plan);
  void run_task(const Task& task);
  void run_neighbours(const Task& task);
  bool read_together(const Task& task, MutableByteView out);
  void read_cut(const Unit& unit, std::uint64_t offset, MutableByteView out);
  bool run_scatter(const Task& task);
  bool run_raw_part(const Unit& unit, const ScatterSource& source);
  bool run_stream(const Unit& unit);
  bool run_checksummed(const Unit& unit);
  bool run_part(const Unit& unit, ValueStreams& streams);
  bool run_parts(std::span<const Unit> units);
  void run_apart(const Unit& unit);
  void run_rows(const Unit& unit);
  void run_by_key(std::span<const Unit> units);
  void read_piece(const Task& task);
  void land(const Unit& unit, ByteView stored, Workspace& space);
  void land_all(std::span<const Unit> units, ByteView stored, Workspace& space);
  [[nodiscard]] std::size_t window_for(const Unit& unit) const;
  std::shared_ptr<const File> open_forward(const Unit& unit, std::uint64_t sure);
  [[nodiscard]] std::span<const Unit> value_at(std::size_t first, std::size_t end) const;

  [[nodiscard]] DecodeContext decode_context(const Unit& unit) const {
    const BoxRead& read = reads_[unit.place.read];
    return {.metadata = read.array->metadata(), .missing = read.missing, .budget = context_.budget};
  }
  // Waits for the turn to decode what came from a store. Local files need none: there are no more
  // threads than workers.
  void take_turn(const Unit& unit, std::optional<Executor::Turn>& turn) const {
    if (unit.is_remote) turn.emplace(executor_);
  }
  // Long enough for requests of its own. A shorter value is one request.
  [[nodiscard]] static bool is_short_remote(const Unit& unit) {
    return unit.is_remote && unit.length <= kMostRequest;
  }
  // What a forward reader of the value holds, in bytes.
  [[nodiscard]] std::uint64_t forward_bytes(const Unit& unit) const {
    return unit.is_remote ? window_for(unit) * kForwardPiece : 0;
  }
  [[nodiscard]] ByteBudget::Lease lease(std::uint64_t bytes) const {
    return context_.budget && bytes > 0 ? context_.budget->acquire(bytes) : ByteBudget::Lease();
  }
  [[nodiscard]] std::uint64_t scratch_for(const Unit& unit) const;
  void count(std::uint64_t nbytes) const {
    if (context_.progress) context_.progress->done.fetch_add(nbytes, std::memory_order_relaxed);
  }

  std::span<const BoxRead> reads_;
  const ReadContext& context_;
  Executor& executor_;
  FileTable files_;
  Workspaces workspaces_;
  std::vector<Unit> units_;  // of the batch
};

// ---- shards: all indexes are read first, in parallel ----

void Runner::open_shards(ReadPlan& plan) {
  const std::vector<Unit> shards = std::exchange(plan.shards, {});
  std::vector<ReadPlan> inner(shards.size());
  executor_.for_each(shards.size(), [&](std::size_t i) {
    with_context([&] { return where(reads_, shards[i].place); },
                 [&] { open_shard(shards[i], inner[i]); });
  });
  for (ReadPlan& part : inner) {
    std::move(part.units.begin(), part.units.end(), std::back_inserter(plan.units));
    std::move(part.shards.begin(), part.shards.end(), std::back_inserter(plan.shards));
  }
}

void Runner::open_shard(const Unit& shard, ReadPlan& plan) {
  const ShardCodec& codec = *shard.chain->shard;
  const ShardIndexRange range = shard_index_range(codec, shard.length);
  std::vector<ShardEntry> index;
  {
    const auto held = lease(range.length);
    const Workspaces::Loan space(workspaces_);
    const MutableByteView encoded = space->encoded.bytes(range.length).first(range.length);
    files_.read_into(shard.file, shard.offset + range.offset, encoded);
    index = decode_shard_index(codec, encoded, shard.length);
  }
  plan_shard(reads_, shard, index, plan);
}

std::uint64_t Runner::scratch_for(const Unit& unit) const {
  switch (unit.kind) {
    case UnitKind::kValue:
    case UnitKind::kByKey:
      return scratch_bytes(*unit.chain, unit.direct != nullptr);
    case UnitKind::kDirect:
    case UnitKind::kSpan:
    case UnitKind::kRows:
    case UnitKind::kMissing:
      return 0;
  }
  return 0;
}

// Returns the units from `first` up to `end` that want elements of the same value.
std::span<const Unit> Runner::value_at(std::size_t first, std::size_t end) const {
  std::size_t last = first + 1;
  while (last < end && same_value(reads_, units_[first], units_[last])) ++last;
  return std::span(units_).subspan(first, last - first);
}

// ---- tasks ----

void Runner::run_task(const Task& task) {
  switch (task.kind) {
    case TaskKind::kRun:
      return run_neighbours(task);
    case TaskKind::kPiece:
      return read_piece(task);
    case TaskKind::kApart:
      for (std::size_t i = task.first, end = task.first + task.count; i < end;) {
        const auto units = value_at(i, end);
        with_context(
            [&] { return where(reads_, units[0].place); },
            [&] { units[0].kind == UnitKind::kByKey ? run_by_key(units) : run_apart(units[0]); });
        for (const Unit& unit : units) count(unit.nbytes);
        i += units.size();
      }
  }
}

void Runner::read_piece(const Task& task) {
  const Unit& unit = units_[task.first];
  const MutableByteView out(unit.direct + task.offset, task.length);
  with_context([&] { return where(reads_, unit.place); },
               [&] {
                 files_.read_into(unit.file, unit.offset + task.offset, out);
                 check_bools(decode_context(unit).metadata.dtype, out);
               });
  count(task.length);
}

// Runs f. Returns false if it throws an Error. Does not catch those of a store that say nothing
// about the bytes: the store was tried long enough.
template <class F>
bool can(F f, bool is_remote) {
  try {
    f();
    return true;
  } catch (const Error& e) {
    if (is_remote && e.code() != Code::kDataLoss && e.code() != Code::kOutOfRange) throw;
    return false;
  }
}

// Returns whether the unit is a whole raw value with a CRC-32C behind it.
bool is_direct_with_crc(const Unit& unit) {
  return unit.kind == UnitKind::kValue && unit.direct != nullptr && !unit.chain->shard &&
         is_only_crc32c(unit.chain->steps) && unit.length == unit.nbytes + kChecksumSize;
}

// Reads raw neighbours with one scattering read, straight into their destinations, and verifies
// their checksums if they have some. Returns false if the task is not of this kind, if the range
// cannot be read as one or if a checksum is wrong. The caller then reads the units one by one.
bool Runner::run_scatter(const Task& task) {
  const std::span<const Unit> units = std::span(units_).subspan(task.first, task.count);
  std::uint64_t end = task.offset;
  for (const Unit& unit : units) {
    if ((unit.kind != UnitKind::kDirect && !is_direct_with_crc(unit)) || unit.offset < end)
      return false;
    end = unit.offset + unit.length;
  }
  const Workspaces::Loan space(workspaces_);
  const MutableByteView unwanted = space->encoded.bytes(kRunGap);  // receives the gaps
  std::vector<MutableByteView> parts;
  parts.reserve(3 * units.size());
  std::vector<std::array<std::byte, kChecksumSize>> checksums(units.size());
  end = task.offset;
  for (std::size_t i = 0; i < units.size(); ++i) {
    const Unit& unit = units[i];
    const std::uint64_t gap = unit.offset > end ? unit.offset - end : 0;
    // A store's bytes of a buffer without data() are skipped.
    if (gap > 0 && unit.is_remote)
      parts.emplace_back(static_cast<std::byte*>(nullptr), gap);
    else if (gap > 0)
      parts.push_back(unwanted.first(gap));
    parts.emplace_back(unit.direct, unit.nbytes);
    if (unit.kind != UnitKind::kDirect) parts.emplace_back(checksums[i]);
    end = unit.offset + unit.length;
  }
  const auto read = [&] { files_.read_scatter(units[0].file, task.offset, parts); };
  if (!can(read, units[0].is_remote)) return false;
  std::optional<Executor::Turn> turn;
  take_turn(units[0], turn);
  for (std::size_t i = 0; i < units.size(); ++i)
    if (units[i].kind != UnitKind::kDirect &&
        crc32c({units[i].direct, units[i].nbytes}) != ByteReader(checksums[i]).u32())
      return false;
  for (const Unit& unit : units) {
    with_context([&] { return where(reads_, unit.place); },
                 [&] {
                   check_bools(decode_context(unit).metadata.dtype,
                               MutableByteView(unit.direct, unit.nbytes));
                 });
    count(unit.nbytes);
  }
  return true;
}

// Reads the range of a task. Returns false if its units are better read one by one.
bool Runner::read_together(const Task& task, MutableByteView out) {
  const Unit& first = units_[task.first];
  if (!first.is_remote)
    return task.count > 1 &&
           can([&] { files_.read_into(first.file, task.offset, out); }, first.is_remote);
  if (task.count > 1) return can([&] { read_cut(first, task.offset, out); }, true);
  with_context([&] { return where(reads_, first.place); },
               [&] { read_cut(first, task.offset, out); });
  return true;
}

// Reads a range in a store, a long one with several requests at once.
void Runner::read_cut(const Unit& unit, std::uint64_t offset, MutableByteView out) {
  const std::uint64_t size = out.size();
  executor_.for_each((size + kMostRequest - 1) / kMostRequest, [&](std::size_t i) {
    const std::uint64_t begin = i * kMostRequest;
    files_.read_into(unit.file, offset + begin,
                     out.subspan(begin, std::min(kMostRequest, size - begin)));
  });
}

// The pieces that a forward reader of the unit's value may hold.
std::size_t Runner::window_for(const Unit& unit) const {
  const std::uint64_t most = context_.budget ? context_.budget->limit() / 2 : ~std::uint64_t{0};
  const std::uint64_t pieces = (unit.length + kForwardPiece - 1) / kForwardPiece;
  return std::clamp<std::uint64_t>(std::min(pieces, most / kForwardPiece), 1, kMostWindow);
}

// The file of a unit, which is read from front to back. Of a long value in a store, the pieces
// ahead are on their way, `sure` bytes of them at least.
std::shared_ptr<const File> Runner::open_forward(const Unit& unit, std::uint64_t sure) {
  auto file = files_.handle(unit.file);
  if (!unit.is_remote) return file;
  // Together the readers have as many pieces on their way as the store takes, and the workers
  // always one to decode.
  expect_waiting(kMostWindow / window_for(unit) + kReadersAhead);
  return std::make_shared<const File>(read_forward(
      std::move(file),
      {.offset = unit.offset, .length = unit.length, .sure = sure, .window = window_for(unit)}));
}

void Runner::run_neighbours(const Task& task) {
  const auto first_value = value_at(task.first, task.first + task.count);
  if (first_value.size() == task.count &&
      ((task.count == 1 && (run_stream(first_value[0]) || run_checksummed(first_value[0]))) ||
       run_parts(first_value)))
    return;
  if (run_scatter(task)) return;
  std::uint64_t scratch = 0;
  for (std::size_t i = task.first; i < task.first + task.count; ++i)
    scratch = std::max(scratch, scratch_for(units_[i]));
  const auto held = lease(task.length + scratch);
  const Workspaces::Loan space(workspaces_);
  const MutableByteView stored = space->encoded.bytes(task.length).first(task.length);
  const bool together = read_together(task, stored);
  std::optional<Executor::Turn> turn;
  take_turn(units_[task.first], turn);
  for (std::size_t i = task.first, end = task.first + task.count; i < end;) {
    const auto units = value_at(i, end);
    const Unit& unit = units[0];
    const MutableByteView own = stored.subspan(unit.offset - task.offset, unit.length);
    with_context([&] { return where(reads_, unit.place); },
                 [&] {
                   // If reading the run fails, read the units one by one, so that the error names
                   // the right chunk.
                   if (!together) files_.read_into(unit.file, unit.offset, own);
                   land_all(units, own, *space);
                 });
    for (const Unit& each : units) count(each.nbytes);
    i += units.size();
  }
}

// Reads a part of a large raw frame, whose checksum needs all of it, without memory for the whole.
// Returns false if the unit is not of this kind, or wants bytes that do not follow each other.
bool Runner::run_raw_part(const Unit& unit, const ScatterSource& source) {
  const CodecChain& chain = *unit.chain;
  if (chain.swap_bytes || unit.length != raw_zstd_frame_size(chain.nbytes)) return false;
  const DecodeContext context = decode_context(unit);
  const Wanted wanted = transposed(chain, *unit.wanted);
  const RawExtent extent = raw_extent(chain.shape, context.metadata.element_size, wanted.part);
  if (!extent.gapless || !wanted.out.contiguous()) return false;
  const MutableByteView out(wanted.out.data, extent.span);
  const auto held = lease(unit.is_remote ? 0 : kRawFramePiece);  // else the caller holds one
  if (!read_raw_zstd_frame(source, chain.nbytes, extent.offset, out)) return false;
  check_bools(context.metadata.dtype, out);
  return true;
}

// Decodes a large zstd value that lands whole, or a part of a raw one, while reading it, so that
// encoded and decoded bytes are never both in memory. Returns false if the unit is not of this
// kind.
bool Runner::run_stream(const Unit& unit) {
  const auto& steps = unit.chain->steps;
  const bool zstd = steps.size() == 1 && is_zstd(steps[0]);
  if (unit.kind != UnitKind::kValue || !zstd || unit.length < kStream || is_short_remote(unit))
    return false;
  if (!unit.direct && unit.length != raw_zstd_frame_size(unit.chain->nbytes)) return false;
  const auto held = lease(unit.is_remote ? forward_bytes(unit) + kRawFramePiece : 0);
  const auto file = open_forward(unit, unit.length);
  std::optional<Executor::Turn> turn;
  take_turn(unit, turn);
  std::uint64_t at = 0;
  const auto scatter = [&](std::uint64_t offset, std::span<const MutableByteView> parts) {
    turn.reset();
    FileTable::read_scatter(*file, unit.offset + offset, parts);
    take_turn(unit, turn);
  };
  const auto source = [&](MutableByteView piece) {
    scatter(at, {&piece, 1});
    at += piece.size();
    return piece.size();
  };
  const bool done = with_context([&] { return where(reads_, unit.place); },
                                 [&] {
                                   if (!unit.direct) return run_raw_part(unit, scatter);
                                   const MutableByteView out(unit.direct, unit.nbytes);
                                   const bool raw =
                                       unit.length == raw_zstd_frame_size(unit.nbytes) &&
                                       read_raw_zstd_frame(scatter, unit.nbytes, 0, out);
                                   if (!raw && !decompress_zstd_stream(source, unit.length, out))
                                     return false;
                                   check_bools(decode_context(unit).metadata.dtype, out);
                                   return true;
                                 });
  if (done) count(unit.nbytes);
  return done;
}

// Reads a large value that is raw but for its CRC-32C straight into the destination, and verifies
// all of it, also if a part is wanted. Returns false if the unit is not of this kind.
bool Runner::run_checksummed(const Unit& unit) {
  const CodecChain& chain = *unit.chain;
  if (unit.kind != UnitKind::kValue || chain.shard || !is_only_crc32c(chain.steps) ||
      unit.length < kChecksummed || is_short_remote(unit))
    return false;
  const DecodeContext context = decode_context(unit);
  const std::uint64_t end = unit.offset + unit.length;
  const std::uint64_t scratch = unit.direct != nullptr
                                    ? 0
                                    : part_scratch(chain, context.metadata.element_size,
                                                   transposed(chain, *unit.wanted).part);
  const auto held = lease(forward_bytes(unit) + scratch);
  const auto file = open_forward(unit, unit.length);
  const auto source = [&, at = unit.offset](MutableByteView piece) mutable {
    piece = piece.first(static_cast<std::size_t>(std::min<std::uint64_t>(piece.size(), end - at)));
    FileTable::read_scatter(*file, at, {&piece, 1});
    at += piece.size();
    return piece.size();
  };
  with_context([&] { return where(reads_, unit.place); },
               [&] {
                 std::string why;
                 const auto stream =
                     ChainStream::open(chain.steps, {.source = source, .size = unit.length},
                                       chain.nbytes, unit.length, why);
                 if (unit.direct != nullptr) {
                   const MutableByteView out(unit.direct, unit.nbytes);
                   stream->read(out);
                   return check_bools(context.metadata.dtype, out);
                 }
                 const Wanted wanted = transposed(chain, *unit.wanted);
                 const Workspaces::Loan space(workspaces_);
                 land_part(context, chain, wanted, *stream, space->decoded);
                 stream->skip(chain.nbytes - stream->position());
               });
  count(unit.nbytes);
  return true;
}

// Decodes parts of a value that is too large to decode whole, or of which less than half is wanted.
// Reads the parts in their stored order. Returns false if the units are not of this kind.
bool Runner::run_parts(std::span<const Unit> units) {
  const CodecChain& chain = *units[0].chain;
  const bool needed = too_large(chain, false, context_.budget);
  if (units[0].kind != UnitKind::kValue || chain.shard || chain.steps.empty() ||
      !(needed || (chain.nbytes >= kPartial && !is_short_remote(units[0]))))
    return false;
  if (std::any_of(units.begin(), units.end(),
                  [](const Unit& unit) { return unit.direct != nullptr; }))
    return false;
  std::vector<std::pair<RawExtent, const Unit*>> parts;
  std::uint64_t wanted = 0;
  for (const Unit& unit : units) {
    const std::size_t element_size = reads_[unit.place.read].array->metadata().element_size;
    parts.emplace_back(raw_extent(chain.shape, element_size, transposed(chain, *unit.wanted).part),
                       &unit);
    wanted += unit.nbytes;
  }
  std::sort(parts.begin(), parts.end(),
            [](const auto& a, const auto& b) { return a.first.offset < b.first.offset; });
  bool apart = true;  // else the decoder would have to go back
  for (std::size_t i = 1; i < parts.size(); ++i)
    apart = apart && parts[i - 1].first.offset + parts[i - 1].first.span <= parts[i].first.offset;
  if (!needed && !(apart && wanted <= chain.nbytes / 2)) return false;
  ValueStreams own;
  ValueStreams& streams = context_.streams != nullptr ? *context_.streams : own;
  return std::all_of(parts.begin(), parts.end(),
                     [&](const auto& part) { return run_part(*part.second, streams); });
}

// Decodes one part; the decoder continues where the previous part ended. Returns false if it
// cannot.
bool Runner::run_part(const Unit& unit, ValueStreams& streams) {
  const CodecChain& chain = *unit.chain;
  const bool needed = too_large(chain, false, context_.budget);
  const DecodeContext context = decode_context(unit);
  const Wanted wanted = transposed(chain, *unit.wanted);
  const RawExtent extent = raw_extent(chain.shape, context.metadata.element_size, wanted.part);
  const bool done = with_context(
      [&] { return where(reads_, unit.place); },
      [&] {
        const StreamedValue value{files_.path(unit.file), unit.offset, unit.length, chain.nbytes};
        const std::uint64_t scratch =
            part_scratch(chain, context.metadata.element_size, wanted.part);
        // What a forward reader holds is kept.
        auto held = lease(unit.is_remote
                              ? forward_bytes(unit) + std::max(memory_to_open(chain.steps), scratch)
                              : memory_to_open(chain.steps));
        // About as far as the part's end.
        const auto sure = static_cast<std::uint64_t>(
            static_cast<double>(unit.length) *
            (static_cast<double>(extent.offset + extent.span) / static_cast<double>(chain.nbytes)));
        auto stream = streams.take(
            value, chain.steps, [&] { return open_forward(unit, std::min(sure, unit.length)); },
            extent.offset, needed ? IfChecksum::kCheckFirst : IfChecksum::kRefuse,
            context_.budget ? context_.budget->limit() : unit.length);
        if (!stream) return false;
        if (!unit.is_remote) {
          held = {};
          held = lease(scratch);
        }
        const Workspaces::Loan space(workspaces_);
        land_part(context, chain, wanted, *stream, space->decoded);
        streams.keep(value, std::move(stream));
        return true;
      });
  if (done) count(unit.nbytes);
  return done;
}

// Decodes the stored range of a unit into its destination.
void Runner::land(const Unit& unit, ByteView stored, Workspace& space) {
  const DecodeContext context = decode_context(unit);
  if (unit.kind == UnitKind::kSpan) {
    const ArrayView elements{
        .data = stored.data(),
        .dtype = context.metadata.dtype,
        .element_size = context.metadata.element_size,
        .shape = unit.wanted->part.shape,
        .strides = c_strides(unit.chain->shape, context.metadata.element_size)};
    return land_elements(context, *unit.chain, elements, unit.wanted->out);
  }
  if (unit.direct) {
    const MutableByteView out(unit.direct, unit.nbytes);
    if (unit.kind != UnitKind::kDirect) return decode_whole(context, *unit.chain, stored, out);
    std::copy(stored.begin(), stored.end(), out.begin());
    return check_bools(context.metadata.dtype, out);
  }
  decode_value(context, *unit.chain, stored, *unit.wanted, space.decoded);
}

// Like land, for several units that want elements of the same value; decodes it once.
void Runner::land_all(std::span<const Unit> units, ByteView stored, Workspace& space) {
  // each unit decodes the inner chunks it wants from a shard
  if (units.size() == 1 || units[0].chain->shard) {
    for (const Unit& unit : units) land(unit, stored, space);
    return;
  }
  std::vector<Taker> takers;
  for (const Unit& unit : units) takers.push_back({unit.direct, unit.wanted.get()});
  decode_shared(decode_context(units[0]), *units[0].chain, stored, takers, space.decoded);
}

void Runner::run_apart(const Unit& unit) {
  switch (unit.kind) {
    case UnitKind::kMissing:
      return land_missing(decode_context(unit), unit.wanted->out);
    case UnitKind::kRows:
      return run_rows(unit);
    default:
      return;
  }
}

// Reads distant rows with one read each; straight into the destination if the row is contiguous
// there, too.
void Runner::run_rows(const Unit& unit) {
  const DecodeContext context = decode_context(unit);
  const Wanted& wanted = *unit.wanted;
  const std::size_t element_size = context.metadata.element_size;
  const RawExtent extent = raw_extent(unit.chain->shape, element_size, wanted.part);
  const auto strides = c_strides(unit.chain->shape, element_size);
  Box rows{.origin = std::vector<std::int64_t>(wanted.part.rank(), 0), .shape = wanted.part.shape};
  Shape row_shape = wanted.part.shape;
  for (std::size_t d = 0; d < extent.row_dims; ++d) row_shape[d] = 1;
  const auto held = lease(extent.row_span);
  const Workspaces::Loan space(workspaces_);
  const MutableByteView stored = space->encoded.bytes(extent.row_span).first(extent.row_span);
  for (ChunkCursor row(rows, row_shape); !row.done(); row.next()) {
    std::uint64_t offset = unit.offset;
    for (std::size_t d = 0; d < extent.row_dims; ++d)
      offset += static_cast<std::uint64_t>(row.part().position[d] * strides[d]);
    const MutableArrayView out = subview(wanted.out, row.part().in_box);
    const bool whole =
        out.contiguous() &&
        static_cast<std::uint64_t>(element_count(row_shape)) * element_size == extent.row_span;
    const MutableByteView to =
        whole && !unit.chain->swap_bytes ? MutableByteView(out.data, extent.row_span) : stored;
    files_.read_into(unit.file, offset, to);
    const ArrayView elements{.data = to.data(),
                             .dtype = context.metadata.dtype,
                             .element_size = element_size,
                             .shape = row_shape,
                             .strides = strides};
    if (to.data() == out.data) {
      check_bools(context.metadata.dtype, to);
    } else {
      land_elements(context, *unit.chain, elements, out);
    }
  }
}

void Runner::run_by_key(std::span<const Unit> units) {
  const auto value =
      reads_[units[0].place.read].array->store()->map(chunk_key(reads_, units[0].place));
  std::uint64_t scratch = 0;
  for (const Unit& unit : units) {
    // A unit without `wanted` covers the only chunk completely.
    if (!value)
      land_missing(decode_context(unit),
                   unit.direct ? *reads_[unit.place.read].out : unit.wanted->out);
    scratch = std::max(scratch, scratch_for(unit));
  }
  if (!value) return;
  const auto held = lease(scratch);
  const Workspaces::Loan space(workspaces_);
  land_all(units, value->bytes, *space);
}

}  // namespace

void read_boxes(std::span<const BoxRead> reads, const ReadContext& context) {
  Runner(reads, context).run();
}

}  // namespace cairn::inline v0::zarr
