// raw_checkpoint.cc -- requests to a read plan, mapped views, and the check that every byte can be read.
#include <cairn/formats/raw_checkpoint.h>

#include <fmt/format.h>

#include <algorithm>
#include <atomic>

namespace cairn {
namespace {

constexpr std::uint64_t kVerifyPiece = std::uint64_t{8} << 20U;

// What the elements must be aligned to so that a program may look at them in place.
std::size_t alignment(const TensorInfo& info) {
  if (info.dtype == DType::kOpaque) return 1;
  return dtype_kind(info.dtype) == DTypeKind::kComplex ? info.element_size / 2 : info.element_size;
}

}  // namespace

RawCheckpoint::RawCheckpoint(const OpenOptions& options, CheckpointInfo info, std::vector<File> files, std::vector<RawLeaf> leaves,
                             std::vector<Finding> notes)
    : info_(std::move(info)), notes_(std::move(notes)), files_(std::move(files)), memory_(options.memory), maps_(files_.size()) {
  if (options.threads != 0) own_executor_ = std::make_unique<Executor>(options.threads);
  tensors_.reserve(leaves.size());
  arrays_.reserve(leaves.size());
  unreadable_.reserve(leaves.size());
  for (RawLeaf& leaf : leaves) {
    tensors_.push_back(std::move(leaf.info));
    arrays_.push_back(std::move(leaf.array));
    unreadable_.push_back(std::move(leaf.unreadable));
  }
}

void RawCheckpoint::read(std::span<const ReadRequest> requests, const ProgressFn& progress) const {
  std::vector<RawRead> reads;
  reads.reserve(requests.size());
  for (const ReadRequest& request : requests) {
    if (request.tensor >= tensors_.size())
      throw Error(Code::kOutOfRange, fmt::format("tensor {} of {} was asked for", request.tensor, tensors_.size()));
    const TensorInfo& tensor = tensors_[request.tensor];
    if (!unreadable_[request.tensor].empty()) throw Error(Code::kUnimplemented, tensor.name + ": " + unreadable_[request.tensor]);
    check_request(tensor, request);
    reads.push_back(
        {.array = &arrays_[request.tensor], .name = tensor.name, .shape = tensor.shape, .box = &request.box, .out = &request.out});
  }
  read_raw({.files = &files_, .executor = &executor(), .memory = memory_}, reads, progress);
}

std::string RawCheckpoint::read_string(std::size_t index) const {
  if (index >= tensors_.size()) throw Error(Code::kOutOfRange, fmt::format("tensor {} of {} was asked for", index, tensors_.size()));
  const TensorInfo& tensor = tensors_[index];
  if (tensor.dtype_name != "string")
    throw Error(Code::kInvalidArgument, fmt::format("{}: a leaf of kind {} is not a string", tensor.name, tensor.kind));
  std::string text(tensor.nbytes, '\0');
  in([&] { return tensor.name; },
     [&] {
       read_raw_bytes(files_, arrays_[index], 0, {reinterpret_cast<std::byte*>(text.data()), text.size()});
     });
  return text;
}

std::optional<Array> RawCheckpoint::try_view(std::size_t index) const {
  if (index >= tensors_.size()) throw Error(Code::kOutOfRange, fmt::format("tensor {} of {} was asked for", index, tensors_.size()));
  const TensorInfo& tensor = tensors_[index];
  const RawArray& array = arrays_[index];
  if (!tensor.is_array() || !unreadable_[index].empty() || array.packed || array.runs.size() != 1) return std::nullopt;
  std::shared_ptr<const void> owner;
  const std::byte* data = mapped(array.runs.front(), owner);
  if (data == nullptr || reinterpret_cast<std::uintptr_t>(data) % alignment(tensor) != 0) return std::nullopt;
  return Array(tensor.dtype, tensor.element_size, tensor.shape, std::move(owner), data);
}

const std::byte* RawCheckpoint::mapped(const RawRun& run, std::shared_ptr<const void>& owner) const {
  const std::lock_guard lock(map_mutex_);
  auto& map = maps_[run.file];
  if (!map) map = MappedFile::of(files_[run.file]);
  // The file may have been cut short since it was opened.
  if (map->bytes().size() < run.length || run.offset > map->bytes().size() - run.length) return nullptr;
  owner = map;
  return map->bytes().data() + run.offset;
}

VerifyReport RawCheckpoint::verify(const ProgressFn& progress) const {
  struct Piece {
    std::size_t tensor;
    RawRun run;
  };
  std::vector<Piece> pieces;
  std::uint64_t total = 0;
  VerifyReport report;
  report.findings = notes_;
  report.tensors = tensors_.size();
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    if (tensors_[i].is_array()) report.unprotected.push_back(tensors_[i].name);
    for (const RawRun& run : arrays_[i].runs) {
      ++report.chunks;
      total += run.length;
      for (std::uint64_t at = 0; at < run.length; at += kVerifyPiece)
        pieces.push_back({i, {run.file, run.offset + at, std::min(kVerifyPiece, run.length - at)}});
    }
  }
  std::mutex mutex;
  std::uint64_t done = 0;
  executor().for_each(pieces.size(), [&](std::size_t p) {
    const Piece& piece = pieces[p];
    const auto bytes = std::make_unique_for_overwrite<std::byte[]>(piece.run.length);
    const auto result = try_call([&] {
      files_[piece.run.file].read_into(piece.run.offset, {bytes.get(), piece.run.length});
      return true;
    });
    const std::lock_guard lock(mutex);
    if (result.ok())
      report.bytes += piece.run.length;
    else
      report.findings.push_back({.severity = Severity::kDamage,
                                 .tensor = tensors_[piece.tensor].name,
                                 .file = files_[piece.run.file].path(),
                                 .offset = piece.run.offset,
                                 .message = result.error().message()});
    done += piece.run.length;
    if (progress) progress(done, total);
  });
  return report;
}

}  // namespace cairn
