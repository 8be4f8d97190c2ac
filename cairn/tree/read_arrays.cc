// read_arrays.cc -- reads parts of a checkpoint to new arrays, and converts them.
#include <cairn/checkpoint.h>

#include <cairn/array/arena.h>
#include <cairn/array/box.h>
#include <cairn/array/cast_all.h>
#include <cairn/base/executor.h>
#include <cairn/tree/leaf_value.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace cairn::inline v0 {
namespace {

// Bytes of stored elements that are held while they are converted: a usual chunk for each core, of
// which each reads one at a time.
std::uint64_t held_bytes() {
  constexpr std::uint64_t kChunk = std::uint64_t{16} << 20U;
  return kChunk * std::clamp<std::uint64_t>(default_executor().threads(), 3, 16);
}

std::uint64_t stored_bytes(const TensorInfo& tensor, const Box& box) {
  return static_cast<std::uint64_t>(element_count(box.shape)) * tensor.element_size;
}

// Reads the requests that are converted, a group of parts at a time.
class Converter {
 public:
  Converter(const Checkpoint& checkpoint, const ProgressFn& progress, std::uint64_t done,
            std::uint64_t total)
      : checkpoint_(checkpoint), progress_(progress), done_(done), total_(total) {}

  void add(const ArrayRequest& request, const MutableArrayView& out) {
    const TensorInfo& tensor = checkpoint_.tensors()[request.tensor];
    const std::int64_t step = rows_of_part(tensor, request.box);
    const std::int64_t rows = request.box.rank() == 0 ? 1 : request.box.shape[0];
    for (std::int64_t row = 0; row < rows; row += step) {
      Box part = request.box;
      if (part.rank() != 0) {
        part.origin[0] += row;
        part.shape[0] = std::min(step, rows - row);
      }
      add_part(request, tensor, std::move(part), out);
    }
  }
  void flush() {
    checkpoint_.read(reads_, progress_from(done_));
    cast_all(casts_, default_executor());
    done_ += std::exchange(read_, 0);
    held_ = 0;
    reads_.clear();
    casts_.clear();
  }

  // Counts a read as bytes that follow those that are done.
  [[nodiscard]] ProgressFn progress_from(std::uint64_t done) const {
    if (!progress_) return {};
    return [this, done](std::uint64_t bytes, std::uint64_t /*total*/) {
      progress_(done + bytes, total_);
    };
  }

 private:
  // The most rows of the first dimension that are held at a time: all chunks of a part are wanted
  // whole, because a part of a chunk takes as long to read. An array without chunks is one part.
  [[nodiscard]] std::int64_t rows_of_part(const TensorInfo& tensor, const Box& box) const {
    if (box.rank() == 0) return 1;
    const std::int64_t rows = std::max<std::int64_t>(box.shape[0], 1);
    if (tensor.chunk_shape.empty()) return rows;
    const auto row_bytes = static_cast<std::int64_t>(stored_bytes(tensor, box)) / rows;
    const std::int64_t fit =
        static_cast<std::int64_t>(most_held_) / std::max<std::int64_t>(row_bytes, 1);
    const std::int64_t chunk = std::max<std::int64_t>(tensor.chunk_shape[0], 1);
    return std::min(rows, std::max<std::int64_t>(fit / chunk, 1) * chunk);
  }

  void add_part(const ArrayRequest& request, const TensorInfo& tensor, Box part,
                const MutableArrayView& out) {
    const std::uint64_t size = stored_bytes(tensor, part);
    if (held_ != 0 && held_ + size > memory_.size()) flush();
    if (size > memory_.size()) memory_ = Buffer(std::max<std::size_t>(size, most_held_));
    const MutableArrayView stored{.data = memory_.data() + held_,
                                  .dtype = tensor.dtype,
                                  .element_size = tensor.element_size,
                                  .shape = part.shape,
                                  .strides = c_strides(part.shape, tensor.element_size)};
    casts_.push_back(
        {cairn::as_const(stored), subview(out, relative_to(part, request.box.origin))});
    reads_.push_back({request.tensor, std::move(part), stored});
    held_ += padded_size(size);
    read_ += size;
  }

  const Checkpoint& checkpoint_;
  const ProgressFn& progress_;
  std::uint64_t done_;
  std::uint64_t total_;
  const std::uint64_t most_held_ = held_bytes();
  Buffer memory_{0};
  std::uint64_t held_ = 0;  // bytes of memory_ that are in use
  std::uint64_t read_ = 0;  // bytes of the elements there
  std::vector<ReadRequest> reads_;
  std::vector<Cast> casts_;
};

void check_request(const ArrayRequest& request, std::span<const TensorInfo> all) {
  if (request.tensor >= all.size())
    throw Error(Code::kOutOfRange, "there is no tensor " + std::to_string(request.tensor));
  const TensorInfo& tensor = all[request.tensor];
  const std::string name = tensor.full_name();
  check_readable(name, tensor);
  if (!tensor.is_array())
    throw Error(Code::kInvalidArgument,
                "'" + name + "' is not an array (kind: " + tensor.typestr + ")");
  with_context(
      [&] { return name; },
      [&] {
        check_inside(request.box, tensor.shape);  // before memory is allocated for it
        const DType wanted = request.dtype.value_or(tensor.dtype);
        if (wanted != tensor.dtype && (wanted == DType::kOpaque || tensor.dtype == DType::kOpaque))
          throw Error(Code::kInvalidArgument,
                      "elements that Cairn does not interpret cannot be converted");
      });
}

}  // namespace

std::vector<Array> Checkpoint::read_arrays(std::span<const ArrayRequest> requests,
                                           const ProgressFn& progress) const {
  const std::span<const TensorInfo> all = tensors();
  const auto is_converted = [&](const ArrayRequest& request) {
    return request.dtype && *request.dtype != all[request.tensor].dtype;
  };
  const auto element_size = [&](const ArrayRequest& request) {
    return is_converted(request) ? dtype_size(*request.dtype) : all[request.tensor].element_size;
  };
  ArrayArena arena;
  std::uint64_t direct_bytes = 0;
  std::uint64_t total = 0;
  for (const ArrayRequest& request : requests) {
    check_request(request, all);
    const std::uint64_t stored = stored_bytes(all[request.tensor], request.box);
    total += stored;
    if (!is_converted(request)) direct_bytes += stored;
    arena.expect(static_cast<std::uint64_t>(element_count(request.box.shape)) *
                 element_size(request));
  }
  std::vector<Array> arrays;
  arrays.reserve(requests.size());
  std::vector<ReadRequest> direct;
  std::vector<std::pair<const ArrayRequest*, MutableArrayView>> converted;
  for (const ArrayRequest& request : requests) {
    auto [array, out] = arena.allocate(request.dtype.value_or(all[request.tensor].dtype),
                                       element_size(request), request.box.shape);
    arrays.push_back(std::move(array));
    if (is_converted(request))
      converted.emplace_back(&request, std::move(out));
    else
      direct.push_back({request.tensor, request.box, std::move(out)});
  }
  Converter converter(*this, progress, direct_bytes, total);
  read(direct, converter.progress_from(0));
  for (const auto& [request, out] : converted) converter.add(*request, out);
  if (!converted.empty()) converter.flush();
  return arrays;
}

}  // namespace cairn::inline v0
