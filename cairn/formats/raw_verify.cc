// raw_verify.cc -- reads every byte, in pieces and by several threads.
#include <cairn/base/checksum.h>
#include <cairn/formats/raw_verify.h>

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <mutex>
#include <numeric>
#include <optional>
#include <set>

namespace cairn {
namespace {

constexpr std::uint64_t kPiece = std::uint64_t{8} << 20U;
constexpr std::uint64_t kStreamPiece = std::uint64_t{1} << 20U;

std::uint64_t bytes_in_runs(const RawArray& array) {
  return std::accumulate(array.runs.begin(), array.runs.end(), std::uint64_t{0},
                         [](std::uint64_t sum, const RawRun& run) { return sum + run.length; });
}

// The checksum of `size` bytes from those of their pieces.
std::uint32_t combined(Executor& executor, std::uint64_t size, const std::function<std::uint32_t(std::uint64_t, std::uint64_t)>& of_piece) {
  std::vector<std::uint32_t> pieces((size + kPiece - 1) / kPiece);
  const auto length = [&](std::size_t i) { return std::min(kPiece, size - i * kPiece); };
  executor.for_each(pieces.size(), [&](std::size_t i) { pieces[i] = of_piece(i * kPiece, length(i)); });
  std::uint32_t crc = 0;
  for (std::size_t i = 0; i < pieces.size(); ++i) crc = crc32_combine(crc, pieces[i], length(i));
  return crc;
}

class Check {
 public:
  Check(const RawContents& contents, const ProgressFn& progress) : c_(contents), progress_(progress) {}

  VerifyReport run() {
    report_.findings = c_.notes;
    report_.tensors = c_.tensors.size();
    for (std::size_t i = 0; i < c_.tensors.size(); ++i) add(i);
    pieces_crc_.resize(pieces_.size());
    c_.executor.for_each(pieces_.size(), [&](std::size_t p) { read_piece(p); });
    c_.executor.for_each(streams_.size(), [&](std::size_t s) { read_stream(streams_[s]); });
    compare_checksums();
    return std::move(report_);
  }

 private:
  struct Piece {
    std::size_t tensor;
    RawRun run;
  };

  void add(std::size_t i) {
    const TensorInfo& info = c_.tensors[i];
    const RawArray& array = c_.arrays[i];
    if (!info.is_described()) return damage(i, 0, info.error);
    if (info.is_array() && !array.checksum && !array.stream) report_.unprotected.push_back(info.name);
    if (array.stream) {
      streams_.push_back(i);
      total_ += info.nbytes;
      ++report_.chunks;
    }
    for (const RawRun& run : array.runs) {
      ++report_.chunks;
      total_ += run.length;
      for (std::uint64_t at = 0; at < run.length; at += kPiece)
        pieces_.push_back({i, {run.file, run.offset + at, std::min(kPiece, run.length - at)}});
    }
  }

  void read_piece(std::size_t p) {
    const Piece& piece = pieces_[p];
    const auto bytes = std::make_unique_for_overwrite<std::byte[]>(piece.run.length);
    const MutableByteView view(bytes.get(), piece.run.length);
    const auto result = try_call([&] {
      c_.files[piece.run.file].read_into(piece.run.offset, view);
      return true;
    });
    if (result.ok() && c_.arrays[piece.tensor].checksum) pieces_crc_[p] = crc32(view);
    const std::lock_guard lock(mutex_);
    finish(piece.tensor, piece.run.offset, piece.run.length, result);
  }

  void read_stream(std::size_t tensor) {
    const std::uint64_t nbytes = c_.tensors[tensor].nbytes;
    Bytes scratch(std::min(kStreamPiece, nbytes));
    const auto result = try_call([&] {
      std::uint64_t at = 0;
      do {
        const auto piece = MutableByteView(scratch).first(std::min<std::uint64_t>(scratch.size(), nbytes - at));
        c_.arrays[tensor].stream->read(c_.files, at, piece);
        at += piece.size();
      } while (at < nbytes);
      return true;
    });
    const std::lock_guard lock(mutex_);
    finish(tensor, 0, nbytes, result);
  }

  // With the mutex held.
  void finish(std::size_t tensor, std::uint64_t offset, std::uint64_t nbytes, const Result<bool>& result) {
    if (result.ok())
      report_.bytes += nbytes;
    else
      damage(tensor, offset, result.error().message());
    done_ += nbytes;
    if (progress_) progress_(done_, total_);
  }

  // Of arrays of which every piece could be read.
  void compare_checksums() {
    std::size_t p = 0;
    for (std::size_t i = 0; i < c_.tensors.size(); ++i) {
      std::uint32_t crc = 0;
      for (; p < pieces_.size() && pieces_[p].tensor == i; ++p) {
        if (!pieces_crc_[p]) continue;
        crc = crc32_combine(crc, *pieces_crc_[p], pieces_[p].run.length);
      }
      const RawArray& array = c_.arrays[i];
      if (!array.checksum || unread_.contains(i)) continue;
      const auto result = try_call([&] {
        check_checksum(array, crc);
        return true;
      });
      if (!result) damage(i, array.runs.empty() ? 0 : array.runs.front().offset, result.error().message());
    }
  }

  void damage(std::size_t tensor, std::uint64_t offset, const std::string& message) {
    unread_.insert(tensor);
    const RawArray& array = c_.arrays[tensor];
    report_.findings.push_back({.severity = Severity::kDamage,
                                .tensor = c_.tensors[tensor].name,
                                .file = c_.files[array.runs.empty() ? 0 : array.runs.front().file].path(),
                                .offset = offset,
                                .message = message});
  }

  const RawContents& c_;
  const ProgressFn& progress_;
  VerifyReport report_;
  std::vector<Piece> pieces_;                             // by tensor, then in order
  std::vector<std::optional<std::uint32_t>> pieces_crc_;  // beside pieces_, of arrays with a checksum
  std::vector<std::size_t> streams_;
  std::set<std::size_t> unread_;
  std::mutex mutex_;  // guards report_, unread_ and done_ while threads read
  std::uint64_t total_ = 0;
  std::uint64_t done_ = 0;
};

}  // namespace

std::uint32_t checksum_of(Executor& executor, ByteView bytes) {
  return combined(executor, bytes.size(), [&](std::uint64_t offset, std::uint64_t length) { return crc32(bytes.subspan(offset, length)); });
}

std::uint32_t checksum_of(Executor& executor, const std::vector<File>& files, const RawArray& array) {
  return combined(executor, bytes_in_runs(array), [&](std::uint64_t offset, std::uint64_t length) {
    const auto bytes = std::make_unique_for_overwrite<std::byte[]>(length);
    read_raw_bytes(files, array, offset, {bytes.get(), length});
    return crc32({bytes.get(), length});
  });
}

void check_checksum(const RawArray& array, std::uint32_t of_array) {
  const std::uint32_t whole = crc32_combine(array.checksum->before, of_array, bytes_in_runs(array));
  if (whole != array.checksum->whole)
    throw Error(Code::kDataLoss,
                fmt::format("its bytes are damaged: their CRC-32 is {:08x}, stored is {:08x}", whole, array.checksum->whole));
}

VerifyReport verify_raw(const RawContents& contents, const ProgressFn& progress) { return Check(contents, progress).run(); }

}  // namespace cairn
