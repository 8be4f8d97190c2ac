// piece_writer.cc -- cuts tensors into batches that fill a buffer, and overlaps fetching with
// writing.
#include <cairn/formats/raw/piece_writer.h>

#include <cairn/base/executor.h>
#include <cairn/io/atomic_file.h>
#include <cairn/io/direct_writer.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <map>
#include <numeric>
#include <utility>
#include <vector>

namespace cairn::inline v0 {
namespace {

// bytes of a buffer; larger only if a tensor's cut needs it
constexpr std::uint64_t kUsualBuffer = std::uint64_t{64} << 20U;
// bytes that one thread writes at a time
constexpr std::uint64_t kWriteRun = std::uint64_t{4} << 20U;
// a file with at least this many bytes bypasses the page cache
constexpr std::uint64_t kMuch = std::uint64_t{16} << 20U;

// The smallest run that may be fetched or written alone.
std::uint64_t grain(const Placement& p) { return p.packed ? 2 : p.element_size; }

// The required alignment of a fetched element: for complex numbers their size, for 3-byte strings
// 1.
std::uint64_t alignment(const Placement& p) { return std::gcd(p.element_size, kArrayAlignment); }

// Part of a placement, in a buffer.
struct WritePiece {
  std::size_t placement;
  std::uint64_t offset;  // in the placement, as fetched
  MutableByteView bytes;
  std::size_t skew = 0;  // distance from `bytes` to where they are fetched
};

struct Batch {
  Buffer buffer;
  std::vector<WritePiece> pieces;
};

// The position in the file of a piece that begins at the placement's byte `offset`, as fetched.
std::uint64_t place(const Placement& p, std::uint64_t offset) {
  return p.offset + (p.packed ? offset / 2 : offset);
}

// Distributes the placements over buffers. A buffer has the layout of the file: pieces that are
// adjacent in the file are adjacent in the buffer. A large piece has the same offset within a block
// in both.
class Cutter {
 public:
  Cutter(std::span<const Placement> placements, std::uint64_t memory) : placements_(placements) {
    std::uint64_t total = 0, wanted = kUsualBuffer, least = 0;
    for (const auto& p : placements) {
      total += padded_size(p.nbytes) + kBlock;
      wanted = std::max(wanted, p.group != 0 ? memory : std::min(p.cut, p.nbytes) + kBlock);
      least = std::max(least, grain(p) + alignment(p) + kBlock);
    }
    capacity_ = std::max(std::min({memory / 2 / kBlock * kBlock, wanted, total}), least);
  }
  [[nodiscard]] std::uint64_t capacity() const { return capacity_; }

  // Fills `batch` with the next pieces. An empty batch means that all are done.
  void next(Batch& batch) {
    batch.pieces.clear();
    std::uint64_t used = 0;
    while (at_ < placements_.size()) {
      const Placement& p = placements_[at_];
      const std::uint64_t start = start_of(p, used);
      const std::uint64_t taken = start + skew(p, start);
      const std::uint64_t length = taken < capacity_ ? take(p, capacity_ - taken) : 0;
      if (length == 0 && offset_ < p.nbytes) return;
      if (length > 0) {
        batch.pieces.push_back(
            {at_, offset_, {batch.buffer.data() + start, length}, skew(p, start)});
        used = taken + length;
        end_in_file_ = place(p, offset_ + length);
      }
      offset_ += length;
      if (offset_ < p.nbytes) return;
      ++at_;
      offset_ = 0;
    }
  }

 private:
  static constexpr std::uint64_t kBlock = DirectWriter::kBlock;
  // smaller pieces need not bypass the page cache
  static constexpr std::uint64_t kSmall = 16 * kBlock;

  // The start of the next piece in the buffer, after `used` bytes. Only small pieces are packed
  // closely.
  [[nodiscard]] std::uint64_t start_of(const Placement& p, std::uint64_t used) const {
    if (used == 0) return lead(p);
    const bool small = p.nbytes - offset_ < kSmall;
    if (follows(p, used) && (small || used % kBlock == place(p, offset_) % kBlock)) return used;
    return small ? padded_size(used) : (used + kBlock - 1) / kBlock * kBlock + lead(p);
  }
  [[nodiscard]] std::uint64_t lead(const Placement& p) const {
    return p.packed ? 0 : place(p, offset_) % kBlock;
  }
  // Elements may be unaligned in the file. In memory they must be aligned while they are used as
  // elements.
  [[nodiscard]] static std::uint64_t skew(const Placement& p, std::uint64_t start) {
    return (alignment(p) - start % alignment(p)) % alignment(p);
  }
  // Whether the next piece begins in the file where the previous one ends, and may also do so in
  // memory, at byte `used` of the buffer.
  [[nodiscard]] bool follows(const Placement& p, std::uint64_t used) const {
    const bool in_file =
        at_ > 0 && placements_[at_ - 1].file == p.file && place(p, offset_) == end_in_file_;
    return in_file && !p.packed && !placements_[at_ - 1].packed && used % alignment(p) == 0;
  }

  // How many of the remaining bytes of `p` go into `space` bytes: all of them, or whole cuts, or
  // whole elements if an empty buffer cannot hold one cut. 0 means: wait for an empty buffer.
  std::uint64_t take(const Placement& p, std::uint64_t space) const {
    const std::uint64_t left = p.nbytes - offset_, most = capacity_ - lead(p) - skew(p, lead(p));
    if (left <= space) return left;
    if (left <= most && space < most) return 0;
    const bool cuttable = p.cut > 0 && p.cut % grain(p) == 0 && p.cut <= most;
    const std::uint64_t unit = cuttable ? p.cut : grain(p);
    const std::uint64_t start = p.begin + offset_;
    const std::uint64_t end = (start + space) / unit * unit;  // pieces end at multiples of the unit
    return end > start ? end - start : 0;
  }

  std::span<const Placement> placements_;
  std::uint64_t capacity_ = 0;
  std::size_t at_ = 0;
  std::uint64_t offset_ = 0;       // in placement at_
  std::uint64_t end_in_file_ = 0;  // of the previous piece
};

// A local file that bypasses the page cache, and where it ends.
struct LargeFile {
  AtomicFile* file;
  std::uint64_t end;
};

class PieceWriter {
 public:
  PieceWriter(std::span<const Placement> placements, const FetchFn& fetch,
              const PieceWriterOptions& options)
      : placements_(placements),
        fetch_(fetch),
        options_(options),
        executor_(options.executor != nullptr ? *options.executor : default_executor()),
        cutter_(placements, options.memory) {
    // for each file: the bytes written here, and the end of the last of them
    std::map<ByteTarget*, std::pair<std::uint64_t, std::uint64_t>> sizes;
    for (const auto& p : placements) {
      total_ += p.nbytes;
      auto& [bytes, end] = sizes[p.file];
      bytes += p.nbytes;
      end = std::max(end, place(p, p.nbytes));
      any_order_ = any_order_ && p.file->takes_any_order();
    }
    for (const auto& [file, size] : sizes)
      if (auto* local = dynamic_cast<AtomicFile*>(file); local != nullptr && size.first >= kMuch)
        large_.emplace(file, LargeFile{local, size.second});
  }

  void run() {
    std::array<Batch, 2> batches;
    Batch *filled = &batches[0], *next = &batches[1];
    fill(*filled);
    while (!filled->pieces.empty()) {
      executor_.for_each(2, [&](std::size_t job) {
        if (job == 0)
          fill(*next);
        else
          write(*filled);
      });
      std::swap(filled, next);
    }
  }

 private:
  void fill(Batch& batch) {
    if (batch.buffer.size() == 0) batch.buffer = Buffer(cutter_.capacity());
    cutter_.next(batch);
    if (batch.pieces.empty()) return;
    std::vector<TensorPiece> wanted;
    wanted.reserve(batch.pieces.size());
    for (const auto& piece : batch.pieces) {
      const Placement& p = placements_[piece.placement];
      wanted.push_back({p.tensor,
                        p.begin + piece.offset,
                        {piece.bytes.data() + piece.skew, piece.bytes.size()}});
    }
    fetch_(wanted);
    for (const auto& piece : batch.pieces)
      if (piece.skew > 0)
        std::memmove(piece.bytes.data(), piece.bytes.data() + piece.skew, piece.bytes.size());
  }

  // Cuts large pieces where a run would end in the file, so that blocks stay whole.
  [[nodiscard]] std::vector<WritePiece> cut(const Batch& batch) const {
    std::vector<WritePiece> parts;
    for (const auto& piece : batch.pieces) {
      const Placement& p = placements_[piece.placement];
      for (std::uint64_t at = 0; at < piece.bytes.size();) {
        const std::uint64_t first =
            kWriteRun - (p.packed ? 0 : place(p, piece.offset + at) % kWriteRun);
        const std::uint64_t length = std::min<std::uint64_t>(first, piece.bytes.size() - at);
        parts.push_back({piece.placement, piece.offset + at, piece.bytes.subspan(at, length)});
        at += length;
      }
    }
    return parts;
  }

  [[nodiscard]] bool joins(const WritePiece& before, const WritePiece& next) const {
    const Placement &p = placements_[before.placement], &q = placements_[next.placement];
    return p.file == q.file && !p.packed && !q.packed &&
           before.bytes.data() + before.bytes.size() == next.bytes.data() &&
           place(p, before.offset) + before.bytes.size() == place(q, next.offset);
  }

  // Opens a second time only the files that the parts go to: there may be thousands of files.
  void open_large(std::span<const WritePiece> parts) {
    std::map<ByteTarget*, DirectWriter> open;
    for (const WritePiece& part : parts) {
      ByteTarget* file = placements_[part.placement].file;
      const auto large = large_.find(file);
      if (large == large_.end() || open.contains(file)) continue;
      if (auto known = direct_.extract(file))
        open.insert(std::move(known));
      else
        open.try_emplace(file, *large->second.file, large->second.end);
    }
    direct_ = std::move(open);
  }

  void write(const Batch& batch) {
    const std::vector<WritePiece> parts = cut(batch);
    open_large(parts);
    // Makes jobs of about one run each: a large part alone, small parts together.
    std::vector<std::size_t> ends;
    std::uint64_t bytes = 0;
    for (std::size_t i = 0; i < parts.size(); ++i) {
      bytes += parts[i].bytes.size();
      if (bytes < kWriteRun && i + 1 < parts.size()) continue;
      ends.push_back(i + 1);
      bytes = 0;
    }
    const auto write_job = [&](std::size_t job) {
      for (std::size_t i = job == 0 ? 0 : ends[job - 1]; i < ends[job];) {
        std::size_t next = i + 1;
        while (next < ends[job] && joins(parts[next - 1], parts[next])) ++next;
        write_run(std::span(parts).subspan(i, next - i));
        i = next;
      }
    };
    if (any_order_) return executor_.for_each(ends.size(), write_job);
    for (std::size_t job = 0; job < ends.size(); ++job) write_job(job);
  }

  void write_run(std::span<const WritePiece> parts) {
    const Placement& p = placements_[parts.front().placement];
    ByteView all(parts.front().bytes.data(), 0);
    std::uint64_t fetched = 0;
    for (const WritePiece& part : parts) {
      const ByteView bytes =
          placements_[part.placement].packed ? pack(part.bytes) : ByteView(part.bytes);
      if (options_.observe) options_.observe(part.placement, part.offset, bytes);
      all = {all.data(), all.size() + bytes.size()};
      fetched += part.bytes.size();
    }
    const std::uint64_t offset = place(p, parts.front().offset);
    if (const auto direct = direct_.find(p.file); direct != direct_.end())
      direct->second.write_at(offset, all);
    else
      p.file->write_at(offset, all);
    const std::uint64_t done = done_.fetch_add(fetched) + fetched;
    if (options_.progress) options_.progress(done, total_);
  }

  // Packs two elements into each byte, in place.
  static ByteView pack(MutableByteView bytes) {
    for (std::size_t i = 0; i < bytes.size() / 2; ++i)
      bytes[i] = (bytes[2 * i] & std::byte{15}) | (bytes[2 * i + 1] << 4);
    return ByteView(bytes).first(bytes.size() / 2);
  }

  std::span<const Placement> placements_;
  const FetchFn& fetch_;
  const PieceWriterOptions& options_;
  Executor& executor_;
  Cutter cutter_;
  std::map<ByteTarget*, LargeFile> large_;
  std::map<ByteTarget*, DirectWriter> direct_;  // for the files being written now
  bool any_order_ = true;                       // what all targets take
  std::uint64_t total_ = 0;
  std::atomic<std::uint64_t> done_{0};
};

}  // namespace

namespace {

// The placements with those of a group where its first one is.
std::vector<Placement> grouped(std::span<const Placement> placements) {
  std::map<std::uint64_t, std::size_t> first;
  std::vector<std::pair<std::size_t, const Placement*>> order;
  for (std::size_t i = 0; i < placements.size(); ++i) {
    const Placement& p = placements[i];
    order.emplace_back(p.group == 0 ? i : first.emplace(p.group, i).first->second, &p);
  }
  std::stable_sort(order.begin(), order.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<Placement> out;
  out.reserve(order.size());
  for (const auto& entry : order) out.push_back(*entry.second);
  return out;
}

}  // namespace

void write_pieces(std::span<const Placement> placements, const FetchFn& fetch,
                  const PieceWriterOptions& options) {
  const bool groups = std::ranges::any_of(placements, [](const auto& p) { return p.group != 0; });
  const bool any_order =
      std::ranges::all_of(placements, [](const auto& p) { return p.file->takes_any_order(); });
  // What is observed is told by its place.
  if (!groups || !any_order || options.observe)
    return PieceWriter(placements, fetch, options).run();
  PieceWriter(grouped(placements), fetch, options).run();
}

}  // namespace cairn::inline v0
