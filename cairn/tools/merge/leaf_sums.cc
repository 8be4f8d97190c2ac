#include <cairn/tools/merge/leaf_sums.h>

#include <cairn/array/box.h>
#include <cairn/array/cast_plan.h>
#include <cairn/array/rounding.h>
#include <cairn/tools/merge/leaf_batches.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>

namespace cairn::inline v0 {
namespace {

constexpr std::size_t kTaskElements = std::size_t{1} << 16U;
constexpr std::size_t kBlockNumbers = 2048;  // in float64; a block stays in the first-level cache

DType wide_type(DType dtype) {
  return dtype_kind(dtype) == DTypeKind::kComplex ? DType::kComplex128 : DType::kFloat64;
}
std::size_t doubles_of(DType wide) { return dtype_size(wide) / sizeof(double); }

// The sums of one piece, in float64 or as pairs of it.
struct PieceSums {
  Array sums;
  Array base;  // not allocated if there is none
};

// A run of elements of a piece.
struct SumTask {
  std::size_t piece = 0, begin = 0, count = 0;
};

double* numbers_in(Array& array) { return reinterpret_cast<double*>(array.mutable_view().data); }

class SumBatch {
 public:
  SumBatch(const SumSources& from, std::span<const ReadRequest> requests,
           std::span<const LeafPiece> pieces, Executor& executor)
      : from_(from), requests_(requests), pieces_(pieces), executor_(executor) {
    for (const LeafPiece& piece : pieces) {
      const DType wide = wide_type(requests[piece.number].out.dtype);
      PieceSums& sums = sums_.emplace_back();
      sums.sums = Array::allocate(wide, piece.box.shape);
      if (from.first > 0) sums.base = Array::allocate(wide, piece.box.shape);
      const auto count = static_cast<std::size_t>(element_count(piece.box.shape));
      for (std::size_t begin = 0; begin < count; begin += kTaskElements)
        tasks_.push_back({sums_.size() - 1, begin, std::min(kTaskElements, count - begin)});
    }
  }

  void run() {
    for (std::size_t k = 0; k < from_.sources.size(); ++k) add(k);
    std::vector<MutableArrayView> out;
    for (const LeafPiece& piece : pieces_) {
      const ReadRequest& request = requests_[piece.number];
      out.push_back(subview(request.out, relative_to(piece.box, request.box.origin)));
    }
    executor_.for_each(tasks_.size(),
                       [&](std::size_t t) { finish(tasks_[t], out[tasks_[t].piece]); });
    executor_.for_each(pieces_.size(), [&](std::size_t p) {
      if (!out[p].contiguous()) cast_elements(sums_[p].sums.view(), out[p]);
    });
  }

 private:
  void add(std::size_t k) {
    const std::vector<Array> found = read_pieces(
        *from_.sources[k], pieces_,
        [&](std::size_t number) { return from_.leaves[requests_[number].tensor].indices[k]; });
    std::vector<std::optional<CastPlan>> plans(found.size());
    for (std::size_t p = 0; p < found.size(); ++p)
      if (const DType wide = sums_[p].sums.dtype(); found[p].dtype() != wide)
        plans[p].emplace(found[p].dtype(), wide);
    executor_.for_each(tasks_.size(), [&](std::size_t t) {
      const SumTask& task = tasks_[t];
      add_run(k, task, found[task.piece], plans[task.piece]);
    });
  }

  void add_run(std::size_t k, const SumTask& task, const Array& found,
               const std::optional<CastPlan>& plan) {
    PieceSums& to = sums_[task.piece];
    const std::size_t per = doubles_of(to.sums.dtype());
    double* sums = numbers_in(to.sums);
    double* base = from_.first > 0 ? numbers_in(to.base) : nullptr;
    std::array<double, kBlockNumbers> block;  // NOLINT(cppcoreguidelines-pro-type-member-init)
    for (std::size_t done = 0; done < task.count; done += kBlockNumbers / per) {
      const std::size_t at = task.begin + done;
      const std::size_t n = std::min(kBlockNumbers / per, task.count - done);
      const std::byte* stored = found.bytes().data() + at * found.element_size();
      double* wide = k < from_.first ? base + at * per : block.data();
      if (plan)
        plan->run(stored, reinterpret_cast<std::byte*>(wide), n);
      else
        std::memcpy(wide, stored, n * per * sizeof(double));
      if (k < from_.first) continue;
      from_.formula.add(k - from_.first, wide, base == nullptr ? nullptr : base + at * per,
                        sums + at * per, n * per);
    }
  }

  // Writes the run to `out` if that is contiguous.
  void finish(const SumTask& task, const MutableArrayView& out) {
    Array& sums = sums_[task.piece].sums;
    const std::size_t per = doubles_of(sums.dtype());
    double* numbers = numbers_in(sums) + task.begin * per;
    from_.formula.finish(numbers, task.count * per);
    prepare_rounding(numbers, task.count * per, out.dtype);
    if (!out.contiguous()) return;
    const auto count = static_cast<std::int64_t>(task.count);
    const ArrayView run{reinterpret_cast<const std::byte*>(numbers),
                        sums.dtype(),
                        sums.element_size(),
                        {count},
                        {static_cast<std::int64_t>(sums.element_size())}};
    cast_elements(run, {out.data + task.begin * out.element_size,
                        out.dtype,
                        out.element_size,
                        {count},
                        {static_cast<std::int64_t>(out.element_size)}});
  }

  const SumSources& from_;
  std::span<const ReadRequest> requests_;
  std::span<const LeafPiece> pieces_;
  Executor& executor_;
  std::vector<PieceSums> sums_;
  std::vector<SumTask> tasks_;
};

// Bytes that an element takes while it is summed.
std::uint64_t element_cost(const SumSources& from, const ReadRequest& request) {
  std::uint64_t stored = 0;  // one checkpoint is read at a time
  for (std::size_t k = 0; k < from.sources.size(); ++k)
    stored = std::max<std::uint64_t>(
        stored, from.sources[k]->tensors()[from.leaves[request.tensor].indices[k]].element_size);
  return dtype_size(wide_type(request.out.dtype)) * (from.first + 1) + stored;
}

}  // namespace

void read_sums(const SumSources& from, std::span<const ReadRequest> requests, std::uint64_t memory,
               Executor& executor) {
  std::vector<CostedBox> boxes;
  for (const ReadRequest& request : requests)
    boxes.push_back({request.box, element_cost(from, request)});
  in_batches(boxes, memory, [&](std::span<const LeafPiece> pieces) {
    SumBatch(from, requests, pieces, executor).run();
  });
}

}  // namespace cairn::inline v0
