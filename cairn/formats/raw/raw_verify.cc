// raw_verify.cc -- reads every byte, in pieces and with several threads.
#include <cairn/formats/raw/raw_verify.h>

#include <cairn/base/checksum.h>
#include <cairn/base/work_partition.h>
#include <cairn/formats/raw/deferred_array.h>
#include <cairn/formats/raw/scratch_pool.h>

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>

namespace cairn::inline v0 {
namespace {

constexpr std::uint64_t kPiece = std::uint64_t{8} << 20U;
constexpr std::uint64_t kStreamPiece = std::uint64_t{1} << 20U;

// A finding for a slice that could not be checked.
Finding finding_of(const RawContents& contents, std::size_t slice, std::uint64_t offset, Code code,
                   const std::string& message) {
  const auto& deferred = contents.slices[slice].deferred;
  const RawArray& shown = contents.slices[slice].array;
  const RawArray& array = shown.within ? shown.within->all() : shown;
  const std::uint32_t file = deferred             ? deferred->place().file
                             : array.runs.empty() ? 0
                                                  : array.runs.front().file;
  if (deferred) offset = deferred->place().offset;
  return {.severity = severity_of(code),
          .tensor = contents.tensor(slice).name,
          .file = contents.files[file].path(),
          .offset = offset,
          .message = message};
}

// Whether damage to an array would be noticed.
bool is_covered(const RawArray& all) {
  if (all.stream) return all.stream->has_checksum();
  return all.checksum || (all.runs.empty() && all.is_protected);
}

// A file that was replaced is not that of the checkpoint any more.
void throw_if_unavailable(const Result<bool>& read) {
  if (!read.ok() && read.error().code() == Code::kUnavailable) throw Error(read.error());
}

struct Piece {
  std::size_t slice;
  RawRun run;
};

// The work of this process, and its results.
class Check {
 public:
  Check(const RawContents& contents, WorkShare share, const ProgressFn& progress)
      : c_(contents), share_(share), progress_(progress), scratch_(kPiece, contents.memory) {
    std::unordered_set<const CommonBytes*> seen;
    for (std::size_t i = 0; i < c_.slices.size(); ++i)
      if (const auto& within = c_.slices[i].array.within;
          within && seen.insert(within.get()).second)
        readers_.insert(i);
  }

  VerifyPart run() {
    if (share_.index == 0) {
      part_.around.findings = c_.notes;
      part_.around.tensors = c_.tensors.size();
    }
    deal();
    failed_.resize(pieces_.size());
    crcs_.resize(pieces_.size());
    c_.executor.for_each(pieces_.size(), [&](std::size_t p) { read_piece(p); });
    c_.executor.for_each(whole_.size(),
                         [&](std::size_t s) { read_whole(part_.arrays[whole_[s]]); });
    add_pieces();
    return std::move(part_);
  }

 private:
  void deal() {
    std::uint64_t total = 0;
    for (std::size_t i = 0; i < c_.slices.size(); ++i) total += weight_of(i);
    WorkPartition line(share_, total);
    for (std::size_t i = 0; i < c_.slices.size(); ++i) add(i, line);
  }
  [[nodiscard]] std::uint64_t weight_of(std::size_t i) const {
    return WorkPartition::weight(bytes_of(i));
  }
  // The bytes that are read for a slice. Of several that show the same bytes, the first reads them.
  [[nodiscard]] std::uint64_t bytes_of(std::size_t i) const {
    if (const auto& deferred = c_.slices[i].deferred) return deferred->place().length;
    const RawArray& array = c_.slices[i].array;
    if (!array.within) return array.stored_bytes();
    return readers_.contains(i) ? array.within->all().stored_bytes() : 0;
  }

  // Adds the pieces of a slice that belong to this share. Piece 0 stands for the array itself: the
  // process that has it reports what concerns the whole array.
  void add(std::size_t i, WorkPartition& line) {
    const TensorInfo& info = c_.tensor(i);
    const RawArray& array = c_.slices[i].array;
    std::uint64_t pieces = 1;
    const bool in_pieces =
        info.is_described() && !array.stream && !array.within && !c_.slices[i].deferred;
    if (in_pieces)
      for (const RawRun& run : array.runs) pieces += (run.length + kPiece - 1) / kPiece;
    const auto mine = line.next(weight_of(i), pieces);
    if (mine.empty()) return;
    CheckedArray& checked = part_.arrays.emplace_back();
    checked.tensor = i;
    if (mine.begin == 0) add_whole(i, checked);
    if (!in_pieces) return;
    std::uint64_t number = 1;
    for (const RawRun& run : array.runs) {
      for (std::uint64_t at = 0; at < run.length; at += kPiece, ++number) {
        if (number < mine.begin || number >= mine.end) continue;
        pieces_.push_back({i, {run.file, run.offset + at, std::min(kPiece, run.length - at)}});
        total_ += pieces_.back().run.length;
      }
    }
  }

  void add_whole(std::size_t i, CheckedArray& checked) {
    const TensorInfo& info = c_.tensor(i);
    const RawArray& array = c_.slices[i].array;
    if (!info.is_described()) {
      checked.findings.push_back(finding_of(c_, i, 0, info.error_code, info.error));
      return;
    }
    if (c_.slices[i].deferred) {
      checked.chunks = 1;
      whole_.push_back(part_.arrays.size() - 1);
      total_ += bytes_of(i);
      return;
    }
    const RawArray& all = array.within ? array.within->all() : array;
    const bool covered = is_covered(all) || (!all.stream && all.runs.empty() && array.is_protected);
    if (!covered && info.error_code == Code::kUnimplemented && !info.error.empty())
      checked.findings.push_back(finding_of(c_, i, 0, info.error_code, info.error));
    checked.unprotected = info.is_array() && !covered;
    checked.chunks = array.runs.size() + (array.stream ? 1 : 0);
    if (array.within ? !readers_.contains(i) : !array.stream) return;
    whole_.push_back(part_.arrays.size() - 1);
    total_ += bytes_of(i);
  }

  void read_piece(std::size_t p) {
    const Piece& piece = pieces_[p];
    ScratchPool::Loan scratch(scratch_);
    const MutableByteView view(scratch.data(), piece.run.length);
    const auto result = try_call([&] {
      c_.files[piece.run.file].read_into(piece.run.offset, view);
      return true;
    });
    throw_if_unavailable(result);
    if (!result.ok()) failed_[p] = result.error();
    if (const auto& checksum = c_.slices[piece.slice].array.checksum; result.ok() && checksum)
      crcs_[p] = checksum->kind->of(view);
    report_progress(piece.run.length);
  }

  // A stream, bytes that several slices show, or an array that has to be found.
  void read_whole(CheckedArray& checked) {
    const RawSlice& slice = c_.slices[checked.tensor];
    const std::uint64_t nbytes = bytes_of(checked.tensor);
    const auto result = try_call([&] {
      if (slice.deferred)
        check_deferred(slice.deferred->get(c_.files), checked);
      else if (slice.array.within)
        check_bytes(slice.array.within->all());
      else
        read_stream(*slice.array.stream);
      return true;
    });
    throw_if_unavailable(result);
    if (result.ok())
      checked.bytes += nbytes;
    else
      checked.findings.push_back(
          finding_of(c_, checked.tensor, 0, result.error().code(), result.error().message()));
    report_progress(nbytes);
  }

  void check_deferred(const RawArray& array, CheckedArray& checked) const {
    const RawArray& all = array.within ? array.within->all() : array;
    checked.unprotected = !is_covered(all);
    check_bytes(all);
  }

  // Verification reads all bytes, whether they were checked before or have no checksum.
  void check_bytes(const RawArray& all) const {
    if (all.stream) return read_stream(*all.stream);
    const std::uint32_t sum = checksum_of(c_.executor, c_.files, all, c_.memory);
    if (all.checksum) check_checksum(all, sum);
  }

  void read_stream(const SequentialBytes& stream) const {
    const std::uint64_t nbytes = stream.size();
    Bytes scratch(std::min(kStreamPiece, nbytes));
    std::uint64_t at = 0;
    do {
      const auto piece =
          MutableByteView(scratch).first(std::min<std::uint64_t>(scratch.size(), nbytes - at));
      stream.read(c_.files, at, piece);
      at += piece.size();
    } while (at < nbytes);
  }

  void report_progress(std::uint64_t nbytes) {
    if (!progress_) return;
    const std::lock_guard lock(mutex_);
    done_ += nbytes;
    progress_(done_, total_);
  }

  // Adds the results of the pieces to their arrays.
  void add_pieces() {
    auto checked = part_.arrays.begin();
    for (std::size_t p = 0; p < pieces_.size(); ++p) {
      const Piece& piece = pieces_[p];
      while (checked->tensor != piece.slice) ++checked;
      if (failed_[p]) {
        checked->findings.push_back(finding_of(c_, piece.slice, piece.run.offset,
                                               failed_[p]->code(), failed_[p]->message()));
        continue;
      }
      checked->bytes += piece.run.length;
      const auto& checksum = c_.slices[piece.slice].array.checksum;
      if (!checksum) continue;
      checked->crc = checksum->kind->combine(checked->crc, crcs_[p], piece.run.length);
      checked->crc_bytes += piece.run.length;
    }
  }

  const RawContents& c_;
  WorkShare share_;
  const ProgressFn& progress_;
  ScratchPool scratch_;  // many pieces wait for a store at the same time
  VerifyPart part_;
  std::vector<Piece> pieces_;  // by slice, then in order
  // parallel to pieces_: the error, if it could not be read
  std::vector<std::optional<Error>> failed_;
  std::vector<std::uint32_t> crcs_;  // parallel to pieces_, for arrays with a checksum
  std::vector<std::size_t> whole_;   // indices into part_.arrays: streams and shared bytes
  // Slices that are the first to show some shared bytes.
  std::unordered_set<std::size_t> readers_;
  std::mutex mutex_;  // guards done_
  std::uint64_t total_ = 0;
  std::uint64_t done_ = 0;
};

}  // namespace

std::uint32_t checksum_of(Executor& executor, const std::vector<File>& files, const RawArray& array,
                          std::uint64_t memory) {
  const ChecksumKind& kind = array.checksum ? *array.checksum->kind : kCrc32;
  const std::uint64_t size = array.stored_bytes();
  std::vector<std::uint32_t> pieces((size + kPiece - 1) / kPiece);
  const auto length = [&](std::size_t i) { return std::min(kPiece, size - i * kPiece); };
  ScratchPool scratch(std::min(kPiece, size), memory);
  executor.for_each(pieces.size(), [&](std::size_t i) {
    ScratchPool::Loan loan(scratch);
    const MutableByteView bytes(loan.data(), length(i));
    read_raw_bytes(files, array, i * kPiece, bytes);
    pieces[i] = kind.of(bytes);
  });
  std::uint32_t crc = 0;
  for (std::size_t i = 0; i < pieces.size(); ++i) crc = kind.combine(crc, pieces[i], length(i));
  return crc;
}

void check_checksum(const RawArray& array, std::uint32_t of_array) {
  const RawChecksum& checksum = *array.checksum;
  const std::uint32_t whole =
      checksum.kind->combine(checksum.before, of_array, array.stored_bytes());
  if (whole != checksum.whole)
    throw Error(Code::kDataLoss,
                fmt::format("its bytes are damaged: their {} is {:08x}, stored is {:08x}",
                            checksum.kind->name, whole, checksum.whole));
}

void check_common(Executor& executor, const std::vector<File>& files, const CommonBytes& shared,
                  std::uint64_t memory) {
  const RawArray& all = shared.all();
  if (shared.checked()) return;
  if (all.stream) all.stream->check_whole(files);
  if (all.checksum) check_checksum(all, checksum_of(executor, files, all, memory));
  shared.set_checked();
}

VerifyPart verify_raw(const RawContents& contents, WorkShare share, const ProgressFn& progress) {
  return Check(contents, share, progress).run();
}

VerifyReport join_raw(const RawContents& contents, std::vector<VerifyPart> parts) {
  VerifyReport report = std::move(parts.front().around);
  std::vector<CheckedArray> arrays(contents.slices.size());
  for (VerifyPart& part : parts)
    for (CheckedArray& from : part.arrays) {
      CheckedArray& array = arrays[from.tensor];
      std::move(from.findings.begin(), from.findings.end(), std::back_inserter(array.findings));
      array.chunks += from.chunks;
      array.bytes += from.bytes;
      array.unprotected = array.unprotected || from.unprotected;
      if (const auto& checksum = contents.slices[from.tensor].array.checksum)
        array.crc = checksum->kind->combine(array.crc, from.crc, from.crc_bytes);
    }
  std::unordered_map<const CommonBytes*, std::size_t> first_of;
  for (std::size_t i = 0; i < arrays.size(); ++i) {
    CheckedArray& array = arrays[i];
    // What the first array found in shared bytes concerns the others that show them.
    if (const auto& within = contents.slices[i].array.within)
      if (const auto [first, is_first] = first_of.emplace(within.get(), i); !is_first)
        for (Finding finding : arrays[first->second].findings) {
          if (finding.severity != Severity::kDamage) continue;
          finding.tensor = contents.tensor(i).name;
          array.findings.push_back(std::move(finding));
        }
    if (contents.slices[i].array.checksum && array.findings.empty()) {  // all pieces were read
      const auto result = try_call([&] {
        check_checksum(contents.slices[i].array, array.crc);
        return true;
      });
      const auto& runs = contents.slices[i].array.runs;
      if (!result)
        array.findings.push_back(finding_of(contents, i, runs.empty() ? 0 : runs.front().offset,
                                            result.error().code(), result.error().message()));
    }
    std::ranges::copy(array.findings, std::back_inserter(report.findings));
    report.chunks += array.chunks;
    report.bytes += array.bytes;
    const std::string& name = contents.tensor(i).name;
    const bool is_listed = !report.unprotected.empty() && report.unprotected.back() == name;
    if (array.unprotected && !is_listed) report.unprotected.push_back(name);
  }
  return report;
}

}  // namespace cairn::inline v0
