// raw_checkpoint.cc -- turns requests into a read plan and mapped views.
#include <cairn/formats/raw/raw_checkpoint.h>

#include <cairn/array/box.h>
#include <cairn/base/time_text.h>
#include <cairn/formats/raw/raw_verify.h>

#include <fmt/format.h>

#include <algorithm>
#include <deque>

namespace cairn::inline v0 {
namespace {

// bytes; a string is read whole and copied
constexpr std::uint64_t kMaxString = std::uint64_t{64} << 20U;

// An array stored with its first dimension changing fastest is a C-order array with all dimensions
// reversed.
class Transposed {
 public:
  Transposed(const TensorInfo& info, const ReadRequest& request)
      : shape_(info.shape), box_(request.box), out_(request.out) {
    for (auto* values : {&shape_, &box_.shape, &out_.shape})
      std::reverse(values->begin(), values->end());
    for (auto* values : {&box_.origin, &out_.strides}) std::reverse(values->begin(), values->end());
  }
  // `read` refers to this object, which must outlive it.
  void use_in(RawRead& read) const {
    read.shape = shape_;
    read.box = &box_;
    read.out = &out_;
  }

 private:
  Shape shape_;
  Box box_;
  MutableArrayView out_;
};

// A request that needs more work after it was read.
struct Unfinished {
  std::size_t request;
  const RawSums* sums;  // of an array that has a checksum and is read whole
};

// Uses file names without folders: hosts may mount the folder at different paths.
std::vector<std::pair<std::string, std::string>> sizes_and_times(const std::vector<File>& files) {
  std::vector<std::pair<std::string, std::string>> out;
  out.reserve(files.size());
  for (const File& file : files) {
    const std::int64_t changed = file.modified_ns();
    out.emplace_back(file.path().substr(file.path().rfind('/') + 1),
                     fmt::format("{} bytes, changed last at {} ({} ns)", file.size(),
                                 time_text(changed), changed));
  }
  return out;
}

}  // namespace

RawCheckpoint::RawCheckpoint(const OpenOptions& options, CheckpointInfo info, Contents contents)
    : info_(std::move(info)),
      notes_(std::move(contents.notes)),
      files_(std::move(contents.files)),
      structure_(std::move(contents.structure)),
      memory_(options.memory),
      maps_(files_) {
  auto& leaves = contents.leaves;
  if (info_.revision.empty()) info_.revision = sizes_and_times(files_);
  if (options.threads != 0) own_executor_ = std::make_unique<Executor>(options.threads);
  tensors_.reserve(leaves.size());
  arrays_.reserve(leaves.size());
  for (RawLeaf& leaf : leaves) {
    tensors_.push_back(std::move(leaf.info));
    arrays_.push_back(std::move(leaf.array));
    if (leaf.unreadable.empty()) continue;
    tensors_.back().error = std::move(leaf.unreadable);
    tensors_.back().error_code = Code::kUnimplemented;
  }
  checksum_ok_ = std::make_unique<std::atomic<bool>[]>(arrays_.size());
}

const TensorInfo& RawCheckpoint::tensor(std::size_t index) const {
  if (index < tensors_.size()) return tensors_[index];
  throw Error(Code::kOutOfRange,
              fmt::format("tensor {} of {} was asked for", index, tensors_.size()));
}

void RawCheckpoint::read(std::span<const ReadRequest> requests, const ProgressFn& progress) const {
  std::vector<RawRead> reads;
  reads.reserve(requests.size());
  std::deque<Transposed> transposed;
  std::deque<RawSums> sums;
  std::vector<Unfinished> unfinished;
  std::vector<std::size_t> in_part;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    const ReadRequest& request = requests[i];
    const TensorInfo& info = tensor(request.tensor);
    const RawArray& array = arrays_[request.tensor];
    if (!info.error.empty())
      throw Error(info.is_described() ? Code::kUnimplemented : Code::kDataLoss,
                  info.name + ": " + info.error);
    check_request(info, request);
    RawRead& read = reads.emplace_back(RawRead{.array = &array,
                                               .name = info.name,
                                               .shape = info.shape,
                                               .box = &request.box,
                                               .out = &request.out});
    if (array.fortran) transposed.emplace_back(info, request).use_in(read);
    const bool whole = request.box.shape == info.shape;
    if (!whole && !request.box.empty()) in_part.push_back(request.tensor);
    if (whole && array.checksum && !checksum_ok_[request.tensor]) read.sums = &sums.emplace_back();
    if (read.sums != nullptr || array.big_endian || array.stream)
      unfinished.push_back({i, read.sums});
  }
  std::sort(in_part.begin(), in_part.end());
  in_part.erase(std::unique(in_part.begin(), in_part.end()), in_part.end());
  executor().for_each(in_part.size(), [&](std::size_t i) { check_whole(in_part[i]); });
  read_raw({.files = &files_, .executor = &executor(), .memory = memory_}, reads, progress);
  executor().for_each(unfinished.size(), [&](std::size_t i) {
    finish_read(requests[unfinished[i].request], unfinished[i].sums);
  });
}

void RawCheckpoint::check_whole(std::size_t index) const {
  const RawArray& array = arrays_[index];
  with_context([&] { return tensors_[index].name; },
               [&] {
                 if (array.stream) array.stream->check_whole(files_);
                 if (!array.checksum || checksum_ok_[index]) return;
                 check_checksum(array, checksum_of(executor(), files_, array));
                 checksum_ok_[index] = true;
               });
}

void RawCheckpoint::finish_read(const ReadRequest& request, const RawSums* sums) const {
  const TensorInfo& info = tensors_[request.tensor];
  const RawArray& array = arrays_[request.tensor];
  if (sums != nullptr)
    with_context([&] { return info.name; },
                 [&] {
                   const auto crc = sums->of_all(*array.checksum->kind, info.nbytes);
                   check_checksum(array, crc ? *crc : checksum_of(executor(), files_, array));
                   checksum_ok_[request.tensor] = true;
                 });
  // An empty array is checked, too.
  if (array.stream && info.nbytes == 0)
    with_context([&] { return info.name; }, [&] { array.stream->read(files_, 0, {}); });
  if (array.big_endian) copy_elements_swapped(as_const(request.out), request.out);
}

std::string RawCheckpoint::read_string(std::size_t index) const {
  const TensorInfo& info = tensor(index);
  if (!info.is_string())
    throw Error(Code::kInvalidArgument,
                fmt::format("{}: a leaf of kind {} is not a string", info.name, info.kind));
  if (info.nbytes > kMaxString)
    throw Error(Code::kUnimplemented,
                fmt::format("{}: a string of {} bytes; strings of up to {} can be read", info.name,
                            info.nbytes, kMaxString));
  std::string text(info.nbytes, '\0');
  with_context([&] { return info.name; },
               [&] {
                 read_raw_bytes(files_, arrays_[index], 0,
                                {reinterpret_cast<std::byte*>(text.data()), text.size()});
               });
  return text;
}

std::optional<Array> RawCheckpoint::try_view(std::size_t index) const {
  const TensorInfo& info = tensor(index);
  const RawArray& array = arrays_[index];
  if (!info.is_array() || !info.error.empty()) return std::nullopt;
  if (array.packed || array.fortran || array.big_endian || array.runs.size() != 1)
    return std::nullopt;
  auto view = maps_.view(info, array.runs.front());
  if (view) check_whole(index);
  return view;
}

VerifyPart RawCheckpoint::verify_part(WorkShare share, const ProgressFn& progress) const {
  return verify_raw(contents(), share, progress);
}

VerifyReport RawCheckpoint::join_verified(std::vector<VerifyPart> parts) const {
  return join_raw(contents(), std::move(parts));
}

RawContents RawCheckpoint::contents() const {
  return {.tensors = tensors_,
          .arrays = arrays_,
          .files = files_,
          .notes = notes_,
          .executor = executor()};
}

}  // namespace cairn::inline v0
