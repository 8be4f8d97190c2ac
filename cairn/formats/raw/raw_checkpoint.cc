// raw_checkpoint.cc -- turns requests into a read plan and mapped views.
#include <cairn/formats/raw/raw_checkpoint.h>

#include <cairn/array/box.h>
#include <cairn/base/byte_order.h>
#include <cairn/base/errors.h>
#include <cairn/base/text.h>
#include <cairn/base/text/time_text.h>
#include <cairn/formats/raw/deferred_array.h>
#include <cairn/formats/raw/signs.h>
#include <cairn/formats/raw/spare_bits.h>
#include <cairn/formats/raw/strings_message.h>
#include <cairn/tree/leaf_value.h>

#include <fmt/format.h>

#include <algorithm>
#include <deque>

namespace cairn::inline v0 {
namespace {

// bytes; a string is read whole and copied
constexpr std::uint64_t kMaxString = std::uint64_t{64} << 20U;

// A box of an array, and where it goes.
struct Part {
  Shape shape;  // of the array
  Box box;
  MutableArrayView out;
};

// The part with its dimensions in the order in which they are stored.
Part transposed(std::span<const std::uint8_t> axes, const Shape& shape, const Box& box,
                const MutableArrayView& out) {
  Part part{shape, box, out};
  for (std::size_t i = 0; i < axes.size(); ++i) {
    part.shape[i] = shape[axes[i]];
    part.box.origin[i] = box.origin[axes[i]];
    part.box.shape[i] = part.out.shape[i] = box.shape[axes[i]];
    part.out.strides[i] = out.strides[axes[i]];
  }
  return part;
}

// Gives elements the machine's byte order. Those of types that Cairn has no name for become
// little-endian: they are swapped as integers.
void set_byte_order(MutableArrayView view, bool is_big_endian) {
  const bool is_opaque = view.dtype == DType::kOpaque;
  const bool wants_big_endian = kBigEndianMachine && !is_opaque;
  if (is_big_endian == wants_big_endian || view.element_size == 1) return;
  if (is_opaque)
    view.dtype = view.element_size == 2   ? DType::kUint16
                 : view.element_size == 4 ? DType::kUint32
                                          : DType::kUint8;
  copy_elements_swapped(cairn::as_const(view), view);
}

// Uses file names without folders: hosts may mount the folder at different paths.
std::vector<std::pair<std::string, std::string>> sizes_and_times(const std::vector<File>& files) {
  std::vector<std::pair<std::string, std::string>> out;
  out.reserve(files.size());
  for (const File& file : files) {
    const std::int64_t changed = file.modified_ns();
    out.emplace_back(name_of(file.path()), fmt::format("{} bytes, changed last at {} ({} ns)",
                                                       file.size(), time_text(changed), changed));
  }
  return out;
}

}  // namespace

RawLeaf lost_leaf(std::string name, const Error& why) {
  RawLeaf leaf;
  leaf.info.path = {{name, KeyType::kDict}};
  leaf.info.name = std::move(name);
  leaf.info.typestr = "np.ndarray";
  leaf.info.kind = LeafKind::kUnknown;
  leaf.info.error = why.message();
  leaf.info.error_code = why.code();
  leaf.slices.emplace();
  return leaf;
}

void RawCheckpoint::Contents::reserve(std::size_t leaves) {
  tensors_.reserve(leaves);
  slices_.reserve(leaves);
  first_slice_.reserve(leaves + 1);
}

void RawCheckpoint::Contents::add(RawLeaf leaf) {
  const auto number = static_cast<std::uint32_t>(tensors_.size());
  first_slice_.push_back(static_cast<std::uint32_t>(slices_.size()));
  if (!leaf.slices) {
    slices_.push_back({.array = std::move(leaf.array), .box = {}, .tensor = number});
  } else {
    // Beside a whole tensor there may be slices without elements.
    const bool is_alone = leaf.slices->size() == 1;
    for (RawSlice& slice : *leaf.slices) {
      slice.tensor = number;
      if (is_alone && slice.box && slice.box->shape == leaf.info.shape) slice.box.reset();
      slices_.push_back(std::move(slice));
    }
  }
  TensorInfo& tensor = tensors_.emplace_back(std::move(leaf.info));
  if (leaf.unreadable.empty()) return;
  tensor.error = std::move(leaf.unreadable);
  tensor.error_code = Code::kUnimplemented;
}

RawCheckpoint::RawCheckpoint(const OpenOptions& options, CheckpointInfo info, Contents contents)
    : info_(std::move(info)),
      ties_(std::move(contents.ties)),
      notes_(std::move(contents.notes)),
      files_(std::move(contents.files)),
      indexes_(std::move(contents.indexes)),
      structure_(std::move(contents.structure)),
      tensors_(std::move(contents.tensors_)),
      slices_(std::move(contents.slices_)),
      first_slice_(std::move(contents.first_slice_)),
      memory_(options.resources.memory),
      workers_(options.resources.threads),
      maps_(files_) {
  if (info_.revision.empty()) info_.revision = sizes_and_times(files_);
  first_slice_.push_back(static_cast<std::uint32_t>(slices_.size()));
  checksum_ok_ = std::make_unique<std::atomic<bool>[]>(slices_.size());
  has_deferred_ =
      std::ranges::any_of(slices_, [](const RawSlice& slice) { return slice.deferred != nullptr; });
  check_current();
}

void RawCheckpoint::check_current() const {
  const bool are_several = files_.size() + indexes_.size() > 1;
  for (const auto* files : {&files_, &indexes_})
    for (const File& file : *files) are_several ? file.check_current() : file.check_unchanged();
}

template <class F>
auto RawCheckpoint::while_current(F f) const {
  try {
    return f();
  } catch (const Error&) {
    check_current();
    throw;
  }
}

void RawCheckpoint::warn(const std::string& text) {
  info_.warnings.push_back(fmt::format("{}: {}", info_.path, text));
  note(text);
}

void RawCheckpoint::note(const std::string& text) {
  notes_.push_back({.severity = Severity::kNote, .file = info_.path, .message = text});
}

const TensorInfo& RawCheckpoint::tensor(std::size_t index) const {
  if (index < tensors_.size()) return tensors_[index];
  throw Error(
      Code::kOutOfRange,
      fmt::format("tensor index {} is out of range: there are {} tensors", index, tensors_.size()));
}

const TensorInfo& RawCheckpoint::string_leaf(std::size_t index) const {
  const TensorInfo& info = tensor(index);
  if (!info.is_string())
    invalid_argument(fmt::format("{}: a leaf of kind {} is not a string", info.name, info.typestr));
  return info;
}

void RawCheckpoint::throw_gap(std::size_t tensor, const Box& box, std::int64_t covered) const {
  data_loss(fmt::format("{}: its slices hold {} of the {} elements of {}", tensors_[tensor].name,
                        covered, element_count(box.shape), box_text(box)));
}

std::string RawCheckpoint::where(const RawSlice& slice) const {
  const std::string& name = tensors_[slice.tensor].name;
  if (!slice.deferred && slice.array.runs.empty())
    return fmt::format("{}: {}", name, files_.front().path());
  const RawRun run = slice.deferred ? slice.deferred->place() : slice.array.runs.front();
  return fmt::format("{}: {}, byte {}", name, files_[run.file].path(), run.offset);
}

void RawCheckpoint::find_arrays(std::span<const ReadRequest> requests) const {
  if (!has_deferred_) return;
  std::vector<const RawSlice*> needed;
  for (const ReadRequest& request : requests)
    for (const RawSlice& slice : slices_of(request.tensor))
      if (slice.deferred && (!slice.box || intersect(*slice.box, request.box)))
        needed.push_back(&slice);
  executor().for_each(needed.size(), [&](std::size_t i) {
    with_context([&] { return where(*needed[i]); },
                 [&] { (void)needed[i]->deferred->get(files_); });
  });
}

// One bulk read. The reads refer to boxes and views that live here or in the requests.
class RawCheckpoint::Reading {
 public:
  Reading(const RawCheckpoint& from, std::size_t requests) : c_(from) { reads_.reserve(requests); }

  void add(const ReadRequest& request) {
    const TensorInfo& info = c_.tensor(request.tensor);
    if (const RawSlice* whole = c_.whole_slice(request.tensor))
      add_part(*whole, info.shape, request.box, request.out);
    else
      add_slices(request);
  }

  void run(const ProgressFn& progress) {
    std::sort(in_part_.begin(), in_part_.end());
    in_part_.erase(std::unique(in_part_.begin(), in_part_.end()), in_part_.end());
    // Each once, although several arrays show them.
    std::ranges::sort(shared_, {}, &shared_bytes);
    const auto twice = [](auto* a, auto* b) { return shared_bytes(a) == shared_bytes(b); };
    shared_.erase(std::unique(shared_.begin(), shared_.end(), twice), shared_.end());
    Executor& executor = c_.executor();
    executor.for_each(in_part_.size(), [&](std::size_t i) { c_.check_whole(*in_part_[i]); });
    executor.for_each(shared_.size(), [&](std::size_t i) { c_.check_whole(*shared_[i]); });
    read_raw({.files = &c_.files_, .executor = &executor, .memory = c_.memory_}, reads_, progress);
    executor.for_each(unfinished_.size(), [&](std::size_t i) { finish(unfinished_[i]); });
  }

 private:
  static const CommonBytes* shared_bytes(const RawSlice* slice) {
    return slice->bytes().within.get();
  }
  // A part that needs more work after it was read.
  struct Unfinished {
    const RawSlice* slice;
    const MutableArrayView* out;
    const PartChecksums* sums;  // of a slice that has a checksum and is read whole
  };

  // Adds the common part of the request and each slice.
  void add_slices(const ReadRequest& request) {
    std::int64_t covered = 0;
    for (const RawSlice& slice : c_.slices_of(request.tensor)) {
      const auto common = intersect(*slice.box, request.box);
      if (!common || common->empty()) continue;
      covered += element_count(common->shape);
      Box inside = *common, in_request = *common;
      for (std::size_t d = 0; d < inside.rank(); ++d) {
        inside.origin[d] -= slice.box->origin[d];
        in_request.origin[d] -= request.box.origin[d];
      }
      const Part& part =
          parts_.emplace_back(Part{{}, std::move(inside), subview(request.out, in_request)});
      add_part(slice, slice.box->shape, part.box, part.out);
    }
    if (covered != element_count(request.box.shape))
      c_.throw_gap(request.tensor, request.box, covered);
  }

  void add_part(const RawSlice& slice, const Shape& shape, const Box& box,
                const MutableArrayView& out) {
    const RawArray& array = slice.bytes();
    RawRead& read = reads_.emplace_back(RawRead{.array = &array,
                                                .name = c_.tensors_[slice.tensor].name,
                                                .shape = shape,
                                                .box = &box,
                                                .out = &out});
    if (!array.axes.empty()) {
      const Part& part = parts_.emplace_back(transposed(array.axes, shape, box, out));
      read.shape = part.shape;
      read.box = &part.box;
      read.out = &part.out;
    }
    const bool whole = box.shape == shape;
    if (array.within)
      shared_.push_back(&slice);
    else if (!whole && !box.empty())
      in_part_.push_back(&slice);
    if (whole && array.checksum && !c_.checksum_ok(slice))
      read.sums = &sums_.emplace_back(*array.checksum->kind);
    if (read.sums != nullptr || array.has_changed_elements() || array.stream)
      unfinished_.push_back({&slice, &out, read.sums});
  }

  // Verifies the checksum of a slice that was read whole, then fixes its elements.
  void finish(const Unfinished& part) const {
    const RawArray& array = part.slice->bytes();
    if (part.sums != nullptr) c_.check_read(*part.slice, *part.sums);
    // An empty array is checked, too.
    if (array.stream && array.stream->size() == 0)
      with_context([&] { return c_.where(*part.slice); },
                   [&] { array.stream->read(c_.files_, 0, {}); });
    set_byte_order(*part.out, array.big_endian);
    if (array.spare_bits) clear_spare_bits(*part.out);
    if (array.negated) negate(*part.out);
    if (array.conjugated) conjugate(*part.out);
  }

  const RawCheckpoint& c_;
  std::vector<RawRead> reads_;
  std::deque<Part> parts_;
  std::deque<PartChecksums> sums_;
  std::vector<Unfinished> unfinished_;
  std::vector<const RawSlice*> in_part_;
  std::vector<const RawSlice*> shared_;  // show a part of bytes that are checked first
};

void RawCheckpoint::read(std::span<const ReadRequest> requests, const ProgressFn& progress) const {
  for (const ReadRequest& request : requests) {
    const TensorInfo& info = tensor(request.tensor);
    check_readable(info.name, info);
    check_request(info, request);
  }
  while_current([&] {
    find_arrays(requests);
    Reading reading(*this, requests.size());
    for (const ReadRequest& request : requests) reading.add(request);
    reading.run(progress);
  });
}

void RawCheckpoint::check_whole(const RawSlice& slice) const {
  const RawArray& array = slice.bytes();
  with_context([&] { return where(slice); },
               [&] {
                 if (array.within) return check_common(executor(), files_, *array.within, memory_);
                 if (array.stream) array.stream->check_whole(files_);
                 if (!array.checksum || checksum_ok(slice)) return;
                 check_checksum(array, checksum_of(executor(), files_, array, memory_));
                 checksum_ok(slice) = true;
               });
}

void RawCheckpoint::check_read(const RawSlice& slice, const PartChecksums& sums) const {
  const PartChecksums::Joined read = sums.joined();
  const RawArray& array = slice.bytes();
  if (read.has_gap || read.bytes != array.stored_bytes()) return check_whole(slice);
  with_context([&] { return where(slice); }, [&] { check_checksum(array, read.checksum); });
  checksum_ok(slice) = true;
}

Tree RawCheckpoint::tree_of(const std::function<Tree(std::size_t)>& leaf) const {
  if (!structure_) return VerifiableCheckpoint::tree_of(leaf);
  return map_leaves(*structure_, [&](const KeyPath& /*path*/, const Tree& node) {
    const auto* index = std::get_if<std::int64_t>(&node.value());
    return index == nullptr ? node : leaf(static_cast<std::size_t>(*index));
  });
}

std::string RawCheckpoint::read_string(std::size_t index) const {
  const TensorInfo& info = string_leaf(index);
  if (info.nbytes > kMaxString)
    throw Error(Code::kUnimplemented,
                fmt::format("{}: a string of {} bytes; strings of up to {} can be read", info.name,
                            info.nbytes, kMaxString));
  std::string text(info.nbytes, '\0');
  while_current([&] {
    with_context([&] { return info.name; },
                 [&] {
                   read_raw_bytes(files_, slices_of(index).front().array, 0,
                                  {reinterpret_cast<std::byte*>(text.data()), text.size()});
                 });
  });
  return text;
}

std::vector<std::string> RawCheckpoint::read_strings(std::size_t index) const {
  if (tensor(index).shape.empty()) return {read_string(index)};
  (void)string_leaf(index);
  return strings_of_message(slices_of(index).front().array.own);
}

std::optional<Array> RawCheckpoint::try_view(std::size_t index) const {
  const TensorInfo& info = tensor(index);
  const RawSlice* slice = whole_slice(index);
  if (slice == nullptr || !info.is_array() || !info.error.empty()) return std::nullopt;
  if (slice->deferred)
    while_current([&] {
      with_context([&] { return where(*slice); }, [&] { (void)slice->deferred->get(files_); });
    });
  const RawArray& array = slice->bytes();
  if (!array.is_as_in_memory() || array.runs.size() != 1) return std::nullopt;
  auto view = maps_.view(info, array.runs.front());
  if (!view) return view;
  while_current([&] { check_whole(*slice); });
  files_[array.runs.front().file].check_unchanged();
  return view;
}

VerifyPart RawCheckpoint::verify_part(WorkShare share, const ProgressFn& progress) const {
  VerifyPart part = verify_raw(contents(), share, progress);
  check_current();
  return part;
}

VerifyReport RawCheckpoint::join_verified(std::vector<VerifyPart> parts) const {
  return join_raw(contents(), std::move(parts));
}

RawContents RawCheckpoint::contents() const {
  return {.tensors = tensors_,
          .slices = slices_,
          .files = files_,
          .notes = notes_,
          .executor = executor(),
          .memory = memory_};
}

}  // namespace cairn::inline v0
