// framed_file.cc -- where one process writes all of a file, frames are fetched as if they were
// tensors: when their turn comes, the checksums of the tensors before them are known.
#include <cairn/formats/output/framed_file.h>

#include <cairn/base/byte_io.h>
#include <cairn/base/checksum.h>
#include <cairn/formats/output/single_output.h>
#include <cairn/formats/raw/checksum_kind.h>
#include <cairn/formats/raw/part_checksums.h>

#include <algorithm>
#include <array>
#include <deque>
#include <utility>

namespace cairn::inline v0 {
namespace {

// bytes whose checksum one thread computes at a time
constexpr std::size_t kChecksumRun = std::size_t{1} << 20U;

std::uint64_t stored_bytes(const Placement& p) { return p.packed ? p.nbytes / 2 : p.nbytes; }

// Where frame `number` begins in the file.
std::uint64_t begin_of_frame(const FramedFile& layout, std::size_t number) {
  if (number == 0) return 0;
  const Placement& before = layout.tensors()[number - 1];
  return before.offset + stored_bytes(before);
}

std::uint64_t end_of_frame(const FramedFile& layout, std::size_t number) {
  return number < layout.tensors().size() ? layout.tensors()[number].offset : layout.size();
}

// The checksum of the bytes as they are stored.
std::uint32_t checksum_of(ByteView bytes, bool packed) {
  if (!packed) return crc32(bytes);
  std::array<std::byte, 4096> stored{};
  std::uint32_t checksum = crc32({});
  for (std::size_t begin = 0; begin < bytes.size(); begin += 2 * stored.size()) {
    const ByteView run = bytes.subspan(begin, std::min(2 * stored.size(), bytes.size() - begin));
    for (std::size_t i = 0; i < run.size() / 2; ++i)
      stored[i] = (run[2 * i] & std::byte{15}) | (run[2 * i + 1] << 4);
    checksum = crc32_extend(checksum, ByteView(stored).first(run.size() / 2));
  }
  return checksum;
}

// Fetches tensors and frames in the order of the file: run 2n is frame n, run 2n + 1 is tensor n.
class FrameFetcher {
 public:
  FrameFetcher(const FramedFile& layout, ByteTarget& target, const FetchFn& fetch,
               Executor& executor)
      : layout_(layout),
        fetch_(fetch),
        executor_(executor),
        checksums_(layout.tensors().size(), crc32({})) {
    const std::size_t count = layout.tensors().size();
    for (std::size_t i = 0; i <= count; ++i) {
      const std::uint64_t begin = begin_of_frame(layout, i);
      placements_.push_back({.tensor = placements_.size(),
                             .file = &target,
                             .offset = begin,
                             .nbytes = end_of_frame(layout, i) - begin});
      if (i == count) break;
      const std::size_t run = placements_.size();
      Placement& placement = placements_.emplace_back(layout.tensors()[i]);
      placement.tensor = run;
      placement.file = &target;
    }
  }

  [[nodiscard]] std::span<const Placement> placements() const { return placements_; }

  void fetch(std::span<const TensorPiece> pieces) {
    wanted_.clear();
    for (const TensorPiece& piece : pieces) {
      if (is_frame(piece)) continue;
      TensorPiece& one = wanted_.emplace_back(piece);
      one.tensor = layout_.tensors()[number_of(piece)].tensor;
    }
    if (!wanted_.empty()) fetch_(wanted_);
    compute_checksums(pieces);
    std::size_t next = 0;
    for (const TensorPiece& piece : pieces) {
      if (is_frame(piece))
        copy_frame(piece);
      else
        next = add_checksums(piece, next);
    }
  }

 private:
  // A part of a piece.
  struct Part {
    ByteView bytes;
    bool packed = false;
    std::uint32_t checksum = 0;
  };

  static bool is_frame(const TensorPiece& piece) { return piece.tensor % 2 == 0; }
  // Of the frame or the tensor.
  static std::size_t number_of(const TensorPiece& piece) { return piece.tensor / 2; }

  void compute_checksums(std::span<const TensorPiece> pieces) {
    parts_.clear();
    for (const TensorPiece& piece : pieces) {
      if (is_frame(piece)) continue;
      for (std::size_t at = 0; at < piece.out.size(); at += kChecksumRun)
        parts_.push_back({.bytes = ByteView(piece.out).subspan(
                              at, std::min(kChecksumRun, piece.out.size() - at)),
                          .packed = layout_.tensors()[number_of(piece)].packed});
    }
    // One job for many small parts.
    ends_.clear();
    std::size_t bytes = 0;
    for (std::size_t i = 0; i < parts_.size(); ++i) {
      bytes += parts_[i].bytes.size();
      if (bytes < kChecksumRun && i + 1 < parts_.size()) continue;
      ends_.push_back(i + 1);
      bytes = 0;
    }
    executor_.for_each(ends_.size(), [&](std::size_t job) {
      for (std::size_t i = job == 0 ? 0 : ends_[job - 1]; i < ends_[job]; ++i)
        parts_[i].checksum = checksum_of(parts_[i].bytes, parts_[i].packed);
    });
  }

  // Adds the parts from `next` on that are the piece's. Returns the number of the part behind them.
  std::size_t add_checksums(const TensorPiece& piece, std::size_t next) {
    std::uint32_t& checksum = checksums_[number_of(piece)];
    for (std::size_t at = 0; at < piece.out.size(); at += kChecksumRun, ++next) {
      const Part& part = parts_[next];
      const std::uint64_t stored = part.packed ? part.bytes.size() / 2 : part.bytes.size();
      const bool is_first = piece.offset + at == 0;
      checksum = is_first ? part.checksum : crc32_combine(checksum, part.checksum, stored);
    }
    return next;
  }

  void copy_frame(const TensorPiece& piece) {
    if (piece.offset == 0) frame_ = layout_.frame(number_of(piece), checksums_);
    ByteReader frame(frame_);
    frame.take(piece.offset);
    std::ranges::copy(frame.take(piece.out.size()), piece.out.begin());
  }

  const FramedFile& layout_;
  const FetchFn& fetch_;
  Executor& executor_;
  std::vector<std::uint32_t> checksums_;  // of the tensors
  std::vector<Placement> placements_;     // by run
  Bytes frame_;                           // the one that was begun last
  // Of the pieces that are being fetched.
  std::vector<TensorPiece> wanted_;
  std::vector<Part> parts_;
  std::vector<std::size_t> ends_;
};

// The part of the progress of two passes over the same bytes: the first pass is number 0.
ProgressFn progress_of_pass(const ProgressFn& progress, std::uint64_t pass) {
  if (!progress) return {};
  return [&progress, pass](std::uint64_t done, std::uint64_t total) {
    progress(pass * total + done, 2 * total);
  };
}

// Writes the file in the steps of SharedFiles.
class FramedWriter {
 public:
  // Borrows everything. `files` has this file alone.
  FramedWriter(SharedFiles& files, const FramedFile& layout, const FetchFn& fetch,
               FramedWriteOptions options)
      : files_(files), layout_(layout), fetch_(fetch), options_(std::move(options)) {}

  // Writes this process's share. Returns the message with its checksums.
  Bytes write() {
    const bool need_next = layout_.frames_need_next();
    if (files_.is_local() && (files_.share().count > 1 || need_next))
      return write_tensors(files_[0], options_.progress);
    if (!files_.is_primary()) return {};
    if (need_next) return write_in_two_passes();
    write_framed(files_[0], layout_, fetch_, options_);
    has_frames_ = true;
    return {};
  }
  // The primary writes the frames that are still missing.
  void finish(const std::vector<Bytes>& messages) {
    if (!has_frames_) write_frames(messages);
  }

 private:
  Bytes write_in_two_passes() {
    NoTarget nothing;
    const Bytes checksums = write_tensors(nothing, progress_of_pass(options_.progress, 0));
    write_frames({checksums});
    if (write_tensors(files_[0], progress_of_pass(options_.progress, 1)) != checksums)
      throw Error(Code::kUnavailable, "an array has changed while it was written; write it again");
    return checksums;
  }

  Bytes write_tensors(ByteTarget& target, const ProgressFn& progress) const {
    std::vector<Placement> all(layout_.tensors().begin(), layout_.tensors().end());
    // Each placement carries its number, for the checksums.
    for (std::size_t i = 0; i < all.size(); ++i) {
      all[i].file = &target;
      all[i].tensor = i;
    }
    const std::vector<Placement> mine = files_.share_of(all);
    std::deque<PartChecksums> parts;
    for (std::size_t i = 0; i < all.size(); ++i) parts.emplace_back(kCrc32);
    const FetchFn fetch = [&](std::span<const TensorPiece> pieces) {
      std::vector<TensorPiece> wanted(pieces.begin(), pieces.end());
      for (TensorPiece& piece : wanted) piece.tensor = layout_.tensors()[piece.tensor].tensor;
      fetch_(wanted);
    };
    write_pieces(mine, fetch,
                 {.executor = options_.executor,
                  .memory = options_.memory,
                  .progress = progress,
                  .observe = [&](std::size_t i, std::uint64_t offset, ByteView bytes) {
                    parts[mine[i].tensor].add(mine[i].packed ? offset / 2 : offset, bytes);
                  }});
    return checksums_message(parts);
  }

  void write_frames(const std::vector<Bytes>& messages) {
    std::vector<std::uint32_t> checksums(layout_.tensors().size(), crc32({}));
    join_checksums(kCrc32, messages,
                   [&](std::size_t i) -> std::uint32_t& { return checksums.at(i); });
    for (std::size_t i = 0; i <= checksums.size(); ++i)
      if (const Bytes frame = layout_.frame(i, checksums); !frame.empty())
        files_[0].write_at(begin_of_frame(layout_, i), frame);
    has_frames_ = true;
  }

  SharedFiles& files_;
  const FramedFile& layout_;
  const FetchFn& fetch_;
  FramedWriteOptions options_;
  bool has_frames_ = false;  // they are written
};

}  // namespace

void write_framed(ByteTarget& target, const FramedFile& layout, const FetchFn& fetch,
                  const FramedWriteOptions& options) {
  FrameFetcher fetcher(layout, target, fetch, *options.executor);
  const FetchFn fetch_all = [&](std::span<const TensorPiece> pieces) { fetcher.fetch(pieces); };
  write_pieces(fetcher.placements(), fetch_all,
               {.executor = options.executor,
                .memory = options.memory,
                .progress = options.progress,
                .observe = {}});
}

void write_framed_file(const distributed::ProcessGroup& group, const OutputPlace& place,
                       const FramedFile& layout, const FetchFn& fetch,
                       const FramedFileOptions& options) {
  const Workers workers(options.resources.threads);
  SingleOutput output(group, place, layout.size(), options.if_exists);
  SharedFiles& files = output.files();
  FramedWriter writer(files, layout, fetch,
                      {.executor = &workers.executor(),
                       .memory = options.resources.memory,
                       .progress = options.progress});
  const std::vector<Bytes> checksums = files.write([&] { return writer.write(); });
  files.commit([&] {
    writer.finish(checksums);
    output.commit();
  });
}

}  // namespace cairn::inline v0
