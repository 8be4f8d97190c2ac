// raw_read.cc -- plans and performs reads. Small contiguous boxes are sorted and read in scattered
// groups. All others are cut into pieces of bounded extent in the file. A piece is read directly if
// possible, and otherwise gathered through scratch memory.
#include <cairn/formats/raw/raw_read.h>

#include <cairn/array/box.h>
#include <cairn/formats/raw/deferred_array.h>
#include <cairn/formats/raw/scratch_pool.h>

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <string>
#include <tuple>

namespace cairn::inline v0 {
namespace {

constexpr std::uint64_t kMaxPiece = std::uint64_t{8} << 20U;
constexpr std::uint64_t kAll = ~std::uint64_t{0};
constexpr std::size_t kSumBlock = std::size_t{512} << 10U;
constexpr std::uint64_t kMinPiece = std::uint64_t{64} << 10U;
// Boxes up to this size are grouped with their neighbours; a larger one gets its own system call.
constexpr std::uint64_t kSmallBox = std::uint64_t{256} << 10U;
constexpr std::uint64_t kMaxGroup = std::uint64_t{2} << 20U;
// each box may need a gap before it, and the kernel accepts 1024 ranges
constexpr std::size_t kMaxGroupBoxes = 500;
// The cost of a system call, in bytes that could be copied in that time. Reading a smaller gap is
// cheaper than skipping it.
constexpr std::uint64_t kGapBytes = 4096;
// The same for a store: the cost of a request.
constexpr std::uint64_t kStoreGapBytes = std::uint64_t{1} << 20U;
// Requests are of equal size, and as many as are sent at once if the bytes suffice.
constexpr std::uint64_t kStoreRequests = 32;
constexpr std::uint64_t kStoreMinRequest = std::uint64_t{1} << 20U;
constexpr std::size_t kStoreMaxGroupBoxes = std::size_t{1} << 14U;

// A box of an array as byte ranges. For packed arrays, bytes count after unpacking.
struct Geometry {
  std::vector<std::int64_t> strides;  // of the whole array
  std::uint64_t first = 0;            // byte of the box's first element
  std::uint64_t payload = 0;          // bytes of the box
  std::uint64_t run = 0;              // contiguous bytes within the box
  // A piece has `step` indices of dimension `cut`, one index of each dimension before it, and all
  // indices of each dimension after it.
  std::size_t cut = 0;
  std::int64_t step = 1;
  std::uint64_t pieces = 1;
  std::uint64_t piece_bytes = 0;
};

std::uint64_t extent_in_file(std::span<const std::int64_t> shape,
                             std::span<const std::int64_t> strides, std::size_t element) {
  std::uint64_t extent = element;
  for (std::size_t d = 0; d < shape.size(); ++d)
    extent += static_cast<std::uint64_t>((shape[d] - 1) * strides[d]);
  return extent;
}

std::uint64_t byte_offset(std::span<const std::int64_t> origin,
                          std::span<const std::int64_t> strides) {
  std::uint64_t offset = 0;
  for (std::size_t d = 0; d < origin.size(); ++d)
    offset += static_cast<std::uint64_t>(origin[d] * strides[d]);
  return offset;
}

std::uint64_t contiguous_run(const Shape& box, std::span<const std::int64_t> whole,
                             std::size_t element) {
  std::uint64_t run = element;
  for (std::size_t d = box.size(); d-- > 0;) {
    run *= static_cast<std::uint64_t>(box[d]);
    if (box[d] != whole[d]) break;
  }
  return run;
}

Geometry plan_box(const RawRead& read, std::uint64_t max_piece) {
  const Shape& shape = read.box->shape;
  const std::size_t element = read.out->element_size;
  Geometry g;
  g.strides = c_strides(read.shape, element);
  g.first = byte_offset(read.box->origin, g.strides);
  g.payload = static_cast<std::uint64_t>(element_count(shape)) * element;
  g.run = contiguous_run(shape, read.shape, element);
  std::size_t d = shape.size();
  std::uint64_t extent = element;  // bytes in the file of the dimensions after d
  while (d > 0) {
    const auto longer = extent + static_cast<std::uint64_t>((shape[d - 1] - 1) * g.strides[d - 1]);
    if (longer > max_piece) break;
    extent = longer;
    --d;
  }
  g.piece_bytes = extent;
  if (d == 0) return g;
  g.cut = d - 1;
  const auto stride = static_cast<std::uint64_t>(g.strides[g.cut]);
  g.step = 1 + static_cast<std::int64_t>(extent < max_piece ? (max_piece - extent) / stride : 0);
  g.piece_bytes = extent + static_cast<std::uint64_t>(g.step - 1) * stride;
  g.pieces = static_cast<std::uint64_t>((shape[g.cut] + g.step - 1) / g.step);
  for (std::size_t i = 0; i < g.cut; ++i) g.pieces *= static_cast<std::uint64_t>(shape[i]);
  return g;
}

// Piece number `index`, in the coordinates of the box.
Box piece_box(const Geometry& g, const Shape& shape, std::uint64_t index) {
  Box piece = Box::whole(shape);
  if (g.pieces == 1) return piece;
  const auto steps = static_cast<std::uint64_t>((shape[g.cut] + g.step - 1) / g.step);
  piece.origin[g.cut] = static_cast<std::int64_t>(index % steps) * g.step;
  piece.shape[g.cut] = std::min(g.step, shape[g.cut] - piece.origin[g.cut]);
  index /= steps;
  for (std::size_t d = g.cut; d-- > 0;) {
    piece.origin[d] = static_cast<std::int64_t>(index % static_cast<std::uint64_t>(shape[d]));
    piece.shape[d] = 1;
    index /= static_cast<std::uint64_t>(shape[d]);
  }
  return piece;
}

// Elements of a byte from the low bits on. `skipped`: of the first byte.
template <unsigned kInByte>
void unpack_elements(ByteView packed, std::size_t skipped, MutableByteView out) {
  constexpr unsigned kBits = 8 / kInByte;
  constexpr std::byte kMask{(1U << kBits) - 1};
  std::size_t i = 0;
  for (; skipped != 0 && skipped < kInByte && i < out.size(); ++i, ++skipped)
    out[i] = packed[0] >> (kBits * skipped) & kMask;
  if (i > 0) packed = packed.subspan(1);
  const std::size_t whole = (out.size() - i) / kInByte;
  for (std::size_t p = 0; p < whole; ++p)
    for (unsigned e = 0; e < kInByte; ++e)
      out[i + kInByte * p + e] = packed[p] >> (kBits * e) & kMask;
  i += kInByte * whole;
  for (unsigned e = 0; i < out.size(); ++i, ++e) out[i] = packed[whole] >> (kBits * e) & kMask;
}

// The size of a request to a store.
std::uint64_t request_size(std::span<const RawRead> reads) {
  std::uint64_t total = 0;
  for (const RawRead& read : reads)
    total += static_cast<std::uint64_t>(element_count(read.box->shape)) * read.out->element_size;
  return std::clamp(total / kStoreRequests, kStoreMinRequest, kMaxPiece);
}

// The size limit of a piece: all threads together stay within the memory, but a piece has at least
// one element.
std::uint64_t piece_limit(const RawReadContext& context, std::span<const RawRead> reads,
                          bool is_local) {
  std::uint64_t limit =
      std::clamp(context.memory / (2 * context.executor->threads()), kMinPiece, kMaxPiece);
  // A stream is not read at several places at once, and goes on best in large pieces.
  const auto has_stream = [](const RawRead& read) { return read.array->stream != nullptr; };
  if (!is_local && std::ranges::none_of(reads, has_stream))
    limit = std::min(limit, request_size(reads));
  for (const RawRead& read : reads) limit = std::max<std::uint64_t>(limit, read.out->element_size);
  return limit;
}

class BulkRead {
 public:
  BulkRead(const RawReadContext& context, std::span<const RawRead> reads,
           const ProgressFn& progress)
      : context_(context),
        reads_(reads),
        progress_(progress),
        is_local_(std::ranges::all_of(*context.files, &File::is_local)),
        max_piece_(piece_limit(context, reads, is_local_)),
        scratch_(max_piece_ + max_piece_ / 2 + 1, context.memory),
        gap_bytes_(is_local_ ? kGapBytes : kStoreGapBytes),
        small_box_(is_local_ ? kSmallBox : max_piece_),
        max_group_(is_local_ ? kMaxGroup : max_piece_),
        max_group_boxes_(is_local_ ? kMaxGroupBoxes : kStoreMaxGroupBoxes) {}

  void run() {
    plan();
    context_.executor->for_each(tasks_.size(), [this](std::size_t i) {
      const Task& task = tasks_[i];
      const std::uint64_t bytes = read_task(task);
      const std::uint64_t done = done_.fetch_add(bytes) + bytes;
      if (progress_) progress_(done, total_);
    });
  }

 private:
  // A small box that is contiguous in the file and in memory.
  struct Segment {
    RawRun where;
    std::uint32_t read;
    [[nodiscard]] std::uint64_t end() const { return where.offset + where.length; }
  };
  // A box of an array whose bytes come from a stream.
  struct StreamRead {
    const SequentialBytes* stream;
    std::uint64_t first;  // first byte
    std::uint32_t read;
  };
  enum class Kind : std::uint8_t { kSegments, kPieces, kStream };
  // [first, first + count): a range of the segments, of the pieces of one read, or of the reads of
  // streams.
  struct Task {
    Kind kind;
    std::uint32_t read;
    std::uint64_t first, count;
  };

  void plan() {
    for (std::uint32_t i = 0; i < reads_.size(); ++i) {
      if (reads_[i].box->empty()) continue;
      with_context([&] { return std::string(reads_[i].name); }, [&] { plan_read(i); });
    }
    std::sort(segments_.begin(), segments_.end(), [](const Segment& a, const Segment& b) {
      return std::tie(a.where.file, a.where.offset) < std::tie(b.where.file, b.where.offset);
    });
    for (std::size_t begin = 0, end = 0; begin < segments_.size(); begin = end) {
      end = group_end(begin);
      tasks_.push_back({.kind = Kind::kSegments, .read = 0, .first = begin, .count = end - begin});
    }
    plan_streams();
  }

  // Each stream is one task. Its boxes are read in ascending order; otherwise the stream would
  // restart for each.
  void plan_streams() {
    std::sort(streams_.begin(), streams_.end(), [](const StreamRead& a, const StreamRead& b) {
      return std::tie(a.stream, a.first) < std::tie(b.stream, b.first);
    });
    for (std::size_t begin = 0, end = 0; begin < streams_.size(); begin = end) {
      while (end < streams_.size() && streams_[end].stream == streams_[begin].stream) ++end;
      tasks_.push_back({.kind = Kind::kStream, .read = 0, .first = begin, .count = end - begin});
    }
  }

  void plan_read(std::uint32_t index) {
    const RawRead& read = reads_[index];
    const Geometry g = plan_box(read, max_piece_);
    total_ += g.payload;
    const bool direct = g.run == g.payload && read.out->contiguous() && !read.array->is_packed();
    if (direct && g.payload <= small_box_ && read.array->runs.size() == 1) {
      const RawRun& whole = read.array->runs.front();
      segments_.push_back({{whole.file, whole.offset + g.first, g.payload}, index});
      return;
    }
    if (read.array->stream) {
      streams_.push_back({read.array->stream.get(), g.first, index});
      return;
    }
    const std::uint64_t pieces_a_task = std::max<std::uint64_t>(1, max_piece_ / g.piece_bytes);
    for (std::uint64_t at = 0; at < g.pieces; at += pieces_a_task)
      tasks_.push_back({.kind = Kind::kPieces,
                        .read = index,
                        .first = at,
                        .count = std::min(pieces_a_task, g.pieces - at)});
  }

  std::uint64_t read_task(const Task& task) {
    switch (task.kind) {
      case Kind::kSegments:
        return read_group(task);
      case Kind::kPieces:
        return read_pieces(task.read, task.first, task.count);
      case Kind::kStream:
        break;
    }
    std::uint64_t bytes = 0;
    for (const StreamRead& read : std::span(streams_).subspan(task.first, task.count))
      bytes += read_pieces(read.read, 0, kAll);
    return bytes;
  }

  std::size_t group_end(std::size_t begin) const {
    const Segment& first = segments_[begin];
    std::size_t end = begin + 1;
    while (end < segments_.size() && end - begin < max_group_boxes_) {
      const Segment& last = segments_[end - 1];
      const Segment& next = segments_[end];
      const bool near = next.where.file == last.where.file && next.where.offset >= last.end() &&
                        next.where.offset - last.end() <= gap_bytes_;
      if (!near || next.end() - first.where.offset > max_group_) break;
      ++end;
    }
    return end;
  }

  std::uint64_t read_group(const Task& task) {
    const std::span<const Segment> group(segments_.data() + task.first, task.count);
    std::byte gap[kGapBytes];
    std::vector<MutableByteView> ranges;
    ranges.reserve(2 * group.size());
    std::uint64_t at = group.front().where.offset, bytes = 0;
    for (const Segment& segment : group) {
      // A store skips what has no place.
      if (segment.where.offset > at)
        ranges.emplace_back(is_local_ ? gap : nullptr, segment.where.offset - at);
      ranges.emplace_back(reads_[segment.read].out->data, segment.where.length);
      at = segment.end();
      bytes += segment.where.length;
    }
    const File& file = (*context_.files)[group.front().where.file];
    try {
      file.read_scatter(group.front().where.offset, ranges);
    } catch (const Error& e) {
      if (!is_local_ && e.code() != Code::kOutOfRange) throw;  // the store was tried long enough
      // read them again one by one, so that the message names the tensor
      for (const Segment& segment : group) read_segment(file, segment);
    }
    for (const Segment& segment : group) {
      const RawRead& read = reads_[segment.read];
      const std::uint64_t begin = segment.where.offset - read.array->runs.front().offset;
      if (read.sums != nullptr) read.sums->add(begin, {read.out->data, segment.where.length});
    }
    return bytes;
  }

  void read_segment(const File& file, const Segment& segment) const {
    const RawRead& read = reads_[segment.read];
    with_context([&] { return std::string(read.name); },
                 [&] {
                   file.read_into(segment.where.offset, {read.out->data, segment.where.length});
                 });
  }

  std::uint64_t read_pieces(std::uint32_t index, std::uint64_t first, std::uint64_t count) {
    const RawRead& read = reads_[index];
    return with_context([&] { return std::string(read.name); },
                        [&] {
                          const Geometry g = plan_box(read, max_piece_);
                          std::uint64_t bytes = 0;
                          const std::uint64_t end = first + std::min(count, g.pieces - first);
                          for (std::uint64_t i = first; i < end; ++i)
                            bytes += read_piece(read, g, piece_box(g, read.box->shape, i));
                          return bytes;
                        });
  }

  std::uint64_t read_piece(const RawRead& read, const Geometry& g, const Box& piece) {
    const MutableArrayView out = subview(*read.out, piece);
    const std::uint64_t first = g.first + byte_offset(piece.origin, g.strides);
    const std::uint64_t extent = extent_in_file(piece.shape, g.strides, out.element_size);
    const std::uint64_t payload =
        static_cast<std::uint64_t>(element_count(piece.shape)) * out.element_size;
    if (extent == payload && out.contiguous() && !read.array->is_packed()) {
      read_in_place(read, first, {out.data, payload});
      return payload;
    }
    ScratchPool::Loan scratch(scratch_);
    const std::uint64_t runs = payload / std::min(g.run, payload);
    if (read.array->is_packed() || read.array->stream || extent - payload <= runs * gap_bytes_)
      read_through(read, first, {scratch.data(), extent}, out, g.strides);
    else
      gather_runs(*read.array, first, {scratch.data(), payload}, out, g);
    return payload;
  }

  // Reads one block at a time if there is a checksum, so that the block is still in the cache. A
  // store gets one request.
  void read_in_place(const RawRead& read, std::uint64_t first, MutableByteView out) {
    while (!out.empty()) {
      const MutableByteView block = out.first(read.sums == nullptr || !is_local_
                                                  ? out.size()
                                                  : std::min<std::size_t>(out.size(), kSumBlock));
      read_raw_bytes(*context_.files, *read.array, first, block);
      if (read.sums != nullptr) read.sums->add(first, block);
      first += block.size();
      out = out.subspan(block.size());
    }
  }

  // Reads everything from the first element to the last one and picks the requested elements.
  void read_through(const RawRead& read, std::uint64_t first, MutableByteView all,
                    const MutableArrayView& out, const std::vector<std::int64_t>& strides) {
    const RawArray& array = *read.array;
    if (array.is_packed()) {
      const std::uint64_t n = array.in_byte;
      const MutableByteView packed(all.data() + all.size(),
                                   (first + all.size() + n - 1) / n - first / n);
      read_raw_bytes(*context_.files, array, first / n, packed);
      if (n == 2)
        unpack_elements<2>(packed, first % n, all);
      else
        unpack_elements<4>(packed, first % n, all);
    } else {
      read_in_place(read, first, all);
    }
    copy_elements(ArrayView{all.data(), out.dtype, out.element_size, out.shape, strides}, out);
  }

  // Reads only the requested runs, one system call each.
  void gather_runs(const RawArray& array, std::uint64_t first, MutableByteView packed,
                   const MutableArrayView& out, const Geometry& g) {
    const MutableByteView target =
        out.contiguous() ? MutableByteView(out.data, packed.size()) : packed;
    const std::uint64_t run = std::min<std::uint64_t>(g.run, target.size());
    std::vector<std::int64_t> index(out.shape.size(), 0);
    for (std::uint64_t at = 0; at < target.size(); at += run) {
      // Compute the index of the element at byte `at` of the piece, innermost dimension first.
      std::uint64_t rest = at / out.element_size;
      for (std::size_t d = index.size(); d-- > 0;) {
        index[d] = static_cast<std::int64_t>(rest % static_cast<std::uint64_t>(out.shape[d]));
        rest /= static_cast<std::uint64_t>(out.shape[d]);
      }
      read_raw_bytes(*context_.files, array, first + byte_offset(index, g.strides),
                     target.subspan(at, run));
    }
    if (target.data() != packed.data()) return;
    copy_elements(ArrayView{packed.data(), out.dtype, out.element_size, out.shape,
                            c_strides(out.shape, out.element_size)},
                  out);
  }

  const RawReadContext& context_;
  std::span<const RawRead> reads_;
  const ProgressFn& progress_;
  bool is_local_;  // the files are
  std::uint64_t max_piece_;
  ScratchPool scratch_;
  std::uint64_t gap_bytes_;
  std::uint64_t small_box_;
  std::uint64_t max_group_;
  std::size_t max_group_boxes_;
  std::vector<Segment> segments_;
  std::vector<StreamRead> streams_;
  std::vector<Task> tasks_;
  std::uint64_t total_ = 0;
  std::atomic<std::uint64_t> done_{0};
};

}  // namespace

const RawArray& RawSlice::bytes() const { return deferred ? deferred->found() : array; }

void read_raw_bytes(const std::vector<File>& files, const RawArray& array, std::uint64_t offset,
                    MutableByteView out) {
  if (!array.own.empty() && offset <= array.own.size() && out.size() <= array.own.size() - offset) {
    std::copy_n(array.own.begin() + static_cast<std::ptrdiff_t>(offset), out.size(), out.begin());
    return;
  }
  if (array.stream) return array.stream->read(files, offset, out);
  for (const RawRun& run : array.runs) {
    if (out.empty()) return;
    if (offset >= run.length) {
      offset -= run.length;
      continue;
    }
    const std::uint64_t n = std::min<std::uint64_t>(run.length - offset, out.size());
    files[run.file].read_into(run.offset + offset, out.first(n));
    out = out.subspan(n);
    offset = 0;
  }
  if (!out.empty())
    throw Error(Code::kOutOfRange, fmt::format("the array ends {} bytes too early", out.size()));
}

void read_raw(const RawReadContext& context, std::span<const RawRead> reads,
              const ProgressFn& progress) {
  BulkRead(context, reads, progress).run();
}

void check_request(const TensorInfo& info, const ReadRequest& request) {
  with_context(
      [&] { return info.name; },
      [&] {
        if (!info.is_array())
          throw Error(Code::kInvalidArgument,
                      fmt::format("a leaf of kind {} has no array to read", info.typestr));
        check_inside(request.box, info.shape);
        if (request.out.dtype != info.dtype || request.out.element_size != info.element_size)
          throw Error(Code::kInvalidArgument,
                      fmt::format("it holds {} elements of {} bytes, but the destination {} of {}",
                                  info.dtype_name, info.element_size, dtype_name(request.out.dtype),
                                  request.out.element_size));
        if (request.out.shape != request.box.shape ||
            request.out.strides.size() != request.out.shape.size())
          throw Error(Code::kInvalidArgument,
                      fmt::format("box shape {} does not match destination shape {}",
                                  shape_text(request.box.shape), shape_text(request.out.shape)));
      });
}

}  // namespace cairn::inline v0
