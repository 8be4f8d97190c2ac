// bundle_checkpoint.cc -- reads tensors that are stored whole or in slices, and verifies their
// checksums.
#include <cairn/formats/tensorflow/read/bundle_checkpoint.h>

#include <cairn/array/box.h>
#include <cairn/formats/tensorflow/index/bundle_elements.h>
#include <cairn/formats/tensorflow/index/object_graph.h>

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <numeric>

namespace cairn::inline v0 {
namespace {

// Elements of types that Cairn has no name for are swapped as integers.
void swap_bytes(MutableArrayView view) {
  if (view.dtype == DType::kOpaque)
    view.dtype = view.element_size == 2   ? DType::kUint16
                 : view.element_size == 4 ? DType::kUint32
                                          : DType::kUint8;
  copy_elements_swapped(cairn::as_const(view), view);
}

const StringEntry& string_entry(const RawArray& array) {
  return static_cast<const StringEntry&>(*array.stream);
}

std::string where_text(const std::vector<File>& files, const RawRun& run) {
  return fmt::format("{}, byte {}", files[run.file].path(), run.offset);
}

std::uint64_t stored_bytes(const RawArray& array) {
  return array.stream ? static_cast<const EntryStream&>(*array.stream).where().length
                      : array.runs.front().length;
}

}  // namespace

BundleCheckpoint::BundleCheckpoint(const OpenOptions& options, CheckpointInfo info,
                                   Contents contents)
    : info_(std::move(info)),
      notes_(std::move(contents.notes)),
      files_(std::move(contents.files)),
      big_endian_(contents.big_endian),
      memory_(options.memory),
      maps_(files_) {
  if (options.threads != 0) own_executor_ = std::make_unique<Executor>(options.threads);
  tensors_.reserve(contents.leaves.size());
  ranges_.reserve(contents.leaves.size());
  tensor_of_.reserve(contents.leaves.size());
  boxes_.reserve(contents.leaves.size());
  arrays_.reserve(contents.leaves.size());
  for (BundleLeaf& leaf : contents.leaves) {
    const auto begin = static_cast<std::uint32_t>(arrays_.size());
    for (BundleStored& stored : leaf.stored) {
      tensor_of_.push_back(static_cast<std::uint32_t>(tensors_.size()));
      boxes_.push_back(std::move(stored.box));
      arrays_.push_back(std::move(stored.array));
    }
    ranges_.push_back({begin, static_cast<std::uint32_t>(arrays_.size())});
    if (!leaf.lost.empty()) lost_.emplace(tensors_.size(), std::move(leaf.lost));
    tensors_.push_back(std::move(leaf.info));
  }
  checksum_ok_ = std::make_unique<std::atomic<bool>[]>(arrays_.size());
}

const TensorInfo& BundleCheckpoint::tensor(std::size_t index) const {
  if (index < tensors_.size()) return tensors_[index];
  throw Error(Code::kOutOfRange,
              fmt::format("tensor {} of {} was asked for", index, tensors_.size()));
}

void BundleCheckpoint::refuse_gap(std::size_t index, const Box& box, std::int64_t covered) const {
  const TensorInfo& info = tensors_[index];
  if (const auto found = lost_.find(index); found != lost_.end())
    for (const BundleLost& lost : found->second)
      if (const auto common = intersect(lost.box, box); common && !common->empty())
        throw Error(Code::kDataLoss,
                    fmt::format("{}: {}: {}", info.name, box_text(lost.box), lost.why));
  throw Error(Code::kDataLoss,
              fmt::format("{}: its slices have {} of the {} elements of {}", info.name, covered,
                          element_count(box.shape), box_text(box)));
}

// One bulk read. The reads refer to boxes and views that live here.
class BundleCheckpoint::Reading {
 public:
  explicit Reading(const BundleCheckpoint& from) : c_(from) {}

  void add(const ReadRequest& request) {
    const TensorInfo& info = c_.tensor(request.tensor);
    if (!info.error.empty())
      throw Error(info.is_described() ? Code::kUnimplemented : Code::kDataLoss,
                  info.name + ": " + info.error);
    check_request(info, request);
    const Range range = c_.ranges_[request.tensor];
    if (range.end - range.begin == 1 && c_.boxes_[range.begin].shape == info.shape)
      return add_part(range.begin, request.box, request.out);
    std::int64_t covered = 0;
    for (std::uint32_t i = range.begin; i < range.end; ++i) {
      const Box& stored = c_.boxes_[i];
      const auto common = intersect(stored, request.box);
      if (!common || common->empty()) continue;
      covered += element_count(common->shape);
      Box inside = *common, in_request = *common;
      for (std::size_t d = 0; d < inside.rank(); ++d) {
        inside.origin[d] -= stored.origin[d];
        in_request.origin[d] -= request.box.origin[d];
      }
      views_.push_back(subview(request.out, in_request));
      boxes_.push_back(std::move(inside));
      add_part(i, boxes_.back(), views_.back());
    }
    if (covered != element_count(request.box.shape))
      c_.refuse_gap(request.tensor, request.box, covered);
  }

  void run(const ProgressFn& progress) {
    std::sort(unsummed_.begin(), unsummed_.end());
    unsummed_.erase(std::unique(unsummed_.begin(), unsummed_.end()), unsummed_.end());
    c_.executor().for_each(unsummed_.size(), [&](std::size_t i) { c_.check_whole(unsummed_[i]); });
    read_raw({.files = &c_.files_, .executor = &c_.executor(), .memory = c_.memory_}, reads_,
             progress);
    for (const Summed& summed : summed_) finish(summed);
  }

 private:
  struct Summed {
    std::uint32_t array;
    const RawSums* sums;
  };

  void add_part(std::uint32_t array, const Box& box, const MutableArrayView& out) {
    const Shape& shape = c_.boxes_[array].shape;
    RawRead& read = reads_.emplace_back(RawRead{.array = &c_.arrays_[array],
                                                .name = c_.name_of(array),
                                                .shape = shape,
                                                .box = &box,
                                                .out = &out});
    if (c_.checksum_ok_[array]) return;
    if (box.shape == shape) {
      read.sums = &sums_.emplace_back();
      summed_.push_back({array, read.sums});
    } else {
      unsummed_.push_back(array);
    }
  }

  void finish(const Summed& summed) const {
    const RawArray& array = c_.arrays_[summed.array];
    const auto crc = summed.sums->of_all(*array.checksum->kind, stored_bytes(array));
    if (!crc) return c_.check_whole(summed.array);
    with_context(
        [&] { return c_.name_of(summed.array) + ": " + where_text(c_.files_, array.runs.front()); },
        [&] { check_checksum(array, *crc); });
    c_.checksum_ok_[summed.array] = true;
  }

  const BundleCheckpoint& c_;
  std::vector<RawRead> reads_;
  std::deque<Box> boxes_;
  std::deque<MutableArrayView> views_;
  std::deque<RawSums> sums_;
  std::vector<Summed> summed_;  // arrays that are read whole
  // arrays that are read in part and have not been verified yet
  std::vector<std::uint32_t> unsummed_;
};

void BundleCheckpoint::check_whole(std::size_t array) const {
  if (checksum_ok_[array]) return;
  with_context(
      [&] { return name_of(array) + ": " + where_text(files_, arrays_[array].runs.front()); },
      [&] { check_checksum(arrays_[array], checksum_of(executor(), files_, arrays_[array])); });
  checksum_ok_[array] = true;
}

void BundleCheckpoint::read(std::span<const ReadRequest> requests,
                            const ProgressFn& progress) const {
  Reading reading(*this);
  for (const ReadRequest& request : requests) reading.add(request);
  reading.run(progress);
  executor().for_each(requests.size(), [&](std::size_t i) {
    const ReadRequest& request = requests[i];
    if (big_endian_) swap_bytes(request.out);
    clear_spare_bits(request.out);
  });
}

std::string BundleCheckpoint::read_string(std::size_t index) const {
  const TensorInfo& info = tensor(index);
  if (!info.is_string())
    throw Error(Code::kInvalidArgument,
                fmt::format("{}: a leaf of kind {} is not a string", info.name, info.kind));
  if (!info.shape.empty())
    throw Error(Code::kInvalidArgument, fmt::format("{}: it is an array of strings of shape {}",
                                                    info.name, shape_text(info.shape)));
  return std::move(read_strings(index).front());
}

std::vector<std::string> BundleCheckpoint::read_strings(std::size_t index) const {
  const TensorInfo& info = tensor(index);
  if (!info.is_string())
    throw Error(Code::kInvalidArgument,
                fmt::format("{}: a leaf of kind {} is not a string", info.name, info.kind));
  if (!info.error.empty()) throw Error(Code::kDataLoss, info.name + ": " + info.error);
  const Range range = ranges_[index];
  const auto read = [&](std::uint32_t array) {
    const StringEntry& entry = string_entry(arrays_[array]);
    return with_context([&] { return info.name + ": " + where_text(files_, entry.where()); },
                        [&] { return entry.strings(files_); });
  };
  if (range.end - range.begin == 1 && boxes_[range.begin].shape == info.shape)
    return read(range.begin);
  std::int64_t covered = 0;
  for (std::uint32_t i = range.begin; i < range.end; ++i) covered += element_count(boxes_[i].shape);
  const std::int64_t all = element_count(info.shape);
  if (covered != all) refuse_gap(index, Box::whole(info.shape), covered);
  std::vector<std::string> strings(static_cast<std::size_t>(all));
  const auto strides = c_strides(info.shape, 1);
  for (std::uint32_t i = range.begin; i < range.end; ++i) {
    const Box& box = boxes_[i];
    std::vector<std::string> part = read(i);
    auto next = part.begin();
    const std::int64_t first =
        std::inner_product(strides.begin(), strides.end(), box.origin.begin(), std::int64_t{0});
    for_each_element(box.shape, strides, [&](std::int64_t offset) {
      strings[static_cast<std::size_t>(first + offset)] = std::move(*next++);
    });
  }
  return strings;
}

std::optional<Array> BundleCheckpoint::try_view(std::size_t index) const {
  const TensorInfo& info = tensor(index);
  const Range range = ranges_[index];
  if (!info.is_array() || !info.error.empty() || range.end - range.begin != 1 ||
      boxes_[range.begin].shape != info.shape)
    return std::nullopt;
  if (big_endian_ || has_spare_bits(info.dtype)) return std::nullopt;
  const RawArray& array = arrays_[range.begin];
  auto view = maps_.view(info, array.runs.front());
  if (view) check_whole(range.begin);
  return view;
}

std::vector<TensorInfo> BundleCheckpoint::describe() const {
  std::vector<TensorInfo> described(arrays_.size());
  for (std::size_t i = 0; i < arrays_.size(); ++i) {
    const TensorInfo& tensor = tensors_[tensor_of_[i]];
    described[i].name = tensor.name;
    described[i].dtype = tensor.dtype;
    described[i].dtype_name = tensor.dtype_name;
    described[i].element_size = tensor.element_size;
    described[i].shape = boxes_[i].shape;
    described[i].nbytes = stored_bytes(arrays_[i]);
    described[i].error = tensor.error;
    described[i].error_code = tensor.error_code;
  }
  return described;
}

VerifyPart BundleCheckpoint::verify_part(WorkShare share, const ProgressFn& progress) const {
  const std::vector<TensorInfo> described = describe();
  VerifyPart part = verify_raw({described, arrays_, files_, notes_, executor()}, share, progress);
  if (share.index == 0) part.around.tensors = tensors_.size();
  return part;
}

VerifyReport BundleCheckpoint::join_verified(std::vector<VerifyPart> parts) const {
  const std::vector<TensorInfo> described = describe();
  return join_raw({described, arrays_, files_, notes_, executor()}, std::move(parts));
}

}  // namespace cairn::inline v0
