// piece_writer.cc -- cuts tensors into batches that fill a buffer, and overlaps fetching with writing.
#include <cairn/base/executor.h>
#include <cairn/formats/piece_writer.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <utility>
#include <vector>

namespace cairn {
namespace {

constexpr std::uint64_t kUsualBuffer = std::uint64_t{64} << 20U;  // more only where a tensor's cut asks for it
constexpr std::uint64_t kWriteRun = std::uint64_t{4} << 20U;      // bytes that one thread writes at a time

// The smallest run that may be fetched or written alone.
std::uint64_t grain(const Placement& p) { return p.packed ? 2 : p.element_size; }

// Part of a placement, in a buffer.
struct Piece {
  std::size_t placement;
  std::uint64_t offset;  // in the tensor, as fetched
  MutableByteView bytes;
};

struct Batch {
  Buffer buffer;
  std::vector<Piece> pieces;
};

std::uint64_t buffer_size(std::span<const Placement> placements, std::uint64_t memory) {
  std::uint64_t total = 0, wanted = kUsualBuffer, least = 0;
  for (const auto& p : placements) {
    total += padded_size(p.nbytes);
    wanted = std::max(wanted, std::min(padded_size(p.cut), padded_size(p.nbytes)));
    least = std::max(least, padded_size(grain(p)));
  }
  return std::max(std::min({memory / 2 / kArrayAlignment * kArrayAlignment, wanted, total}), least);
}

// Deals out the placements, one buffer at a time.
class Cutter {
 public:
  Cutter(std::span<const Placement> placements, std::uint64_t capacity) : placements_(placements), capacity_(capacity) {}

  // Fills `batch` with the pieces that come next; none are left if it comes out empty.
  void next(Batch& batch) {
    batch.pieces.clear();
    std::uint64_t used = 0;
    while (at_ < placements_.size()) {
      const Placement& p = placements_[at_];
      const std::uint64_t length = take(p, capacity_ - used);
      if (length == 0 && offset_ < p.nbytes) return;
      if (length > 0) batch.pieces.push_back({at_, offset_, {batch.buffer.data() + used, length}});
      used += padded_size(length);
      offset_ += length;
      if (offset_ < p.nbytes) return;
      ++at_;
      offset_ = 0;
    }
  }

 private:
  // How much of what is left of `p` goes into `space` bytes: all, or whole cuts, or whole elements if not even one cut
  // would fit an empty buffer; 0 to wait for an empty buffer.
  std::uint64_t take(const Placement& p, std::uint64_t space) const {
    const std::uint64_t left = p.nbytes - offset_;
    if (left <= space) return left;
    if (left <= capacity_ && space < capacity_) return 0;
    const bool cuttable = p.cut > 0 && p.cut % grain(p) == 0 && p.cut <= capacity_;
    const std::uint64_t unit = cuttable ? p.cut : grain(p);
    const std::uint64_t start = p.begin + offset_;
    const std::uint64_t end = (start + space) / unit * unit;  // pieces end at multiples of the unit
    return end > start ? end - start : 0;
  }

  std::span<const Placement> placements_;
  std::uint64_t capacity_;
  std::size_t at_ = 0;
  std::uint64_t offset_ = 0;  // in placement at_
};

class PieceWriter {
 public:
  PieceWriter(std::span<const Placement> placements, const FetchFn& fetch, const PieceWriterOptions& options)
      : placements_(placements),
        fetch_(fetch),
        options_(options),
        capacity_(buffer_size(placements, options.memory)),
        cutter_(placements, capacity_) {
    for (const auto& p : placements) total_ += p.nbytes;
  }

  void run() {
    std::array<Batch, 2> batches;
    Batch *filled = &batches[0], *next = &batches[1];
    fill(*filled);
    while (!filled->pieces.empty()) {
      default_executor().for_each(2, [&](std::size_t job) {
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
    if (batch.buffer.size() == 0) batch.buffer = Buffer(capacity_);
    cutter_.next(batch);
    if (batch.pieces.empty()) return;
    std::vector<TensorPiece> wanted;
    wanted.reserve(batch.pieces.size());
    for (const auto& piece : batch.pieces) {
      const Placement& p = placements_[piece.placement];
      wanted.push_back({p.tensor, p.begin + piece.offset, piece.bytes});
    }
    fetch_(wanted);
  }

  // Large pieces are written by several threads, small ones in runs.
  void write(const Batch& batch) {
    std::vector<Piece> parts;
    for (const auto& piece : batch.pieces)
      for (std::uint64_t at = 0; at < piece.bytes.size(); at += kWriteRun)
        parts.push_back(
            {piece.placement, piece.offset + at, piece.bytes.subspan(at, std::min<std::uint64_t>(kWriteRun, piece.bytes.size() - at))});
    std::vector<std::size_t> ends;
    std::uint64_t bytes = 0;
    for (std::size_t i = 0; i < parts.size(); ++i) {
      bytes += parts[i].bytes.size();
      if (bytes < kWriteRun && i + 1 < parts.size()) continue;
      ends.push_back(i + 1);
      bytes = 0;
    }
    default_executor().for_each(ends.size(), [&](std::size_t run) {
      for (std::size_t i = run == 0 ? 0 : ends[run - 1]; i < ends[run]; ++i) write_part(parts[i]);
    });
  }

  void write_part(const Piece& part) {
    const Placement& p = placements_[part.placement];
    ByteView bytes = part.bytes;
    if (p.packed) {
      for (std::size_t i = 0; i < part.bytes.size() / 2; ++i)
        part.bytes[i] = (part.bytes[2 * i] & std::byte{15}) | (part.bytes[2 * i + 1] << 4);
      bytes = bytes.first(bytes.size() / 2);
    }
    if (options_.observe) options_.observe(part.placement, part.offset, bytes);
    p.file->write_at(p.offset + (p.packed ? part.offset / 2 : part.offset), bytes);
    const std::uint64_t done = done_.fetch_add(part.bytes.size()) + part.bytes.size();
    if (options_.progress) options_.progress(done, total_);
  }

  std::span<const Placement> placements_;
  const FetchFn& fetch_;
  const PieceWriterOptions& options_;
  std::uint64_t capacity_;
  Cutter cutter_;
  std::uint64_t total_ = 0;
  std::atomic<std::uint64_t> done_{0};
};

}  // namespace

void write_pieces(std::span<const Placement> placements, const FetchFn& fetch, const PieceWriterOptions& options) {
  PieceWriter(placements, fetch, options).run();
}

}  // namespace cairn
