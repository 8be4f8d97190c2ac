#include <cairn/tools/transform/lazy_affine.h>

#include <cairn/array/box.h>
#include <cairn/array/rounding.h>
#include <cairn/base/errors.h>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

namespace cairn::inline v0 {
namespace {

constexpr std::int64_t kAffineBlock = 2048;  // elements; a block stays in the first-level cache
using Block = std::array<double, kAffineBlock>;

double apply(const AffineFunction& f, double x) {
  return f.inverse ? (x - f.offset) / f.scale : x * f.scale + f.offset;
}

// Replaces n contiguous elements by those of the function.
class BlockWork {
 public:
  BlockWork(const AffineFunction& function, const MutableArrayView& run)
      : function_(function), run_(run), n_(static_cast<std::size_t>(run.shape[0])) {}

  // Returns how many elements the inverse would not bring back.
  std::uint64_t run() {
    load(before_);
    for (std::size_t i = 0; i < n_; ++i) numbers_[i] = apply(function_, before_[i]);
    store(numbers_);
    // The way back, from the element that is stored.
    load(numbers_);
    AffineFunction back = function_;
    back.inverse = !back.inverse;
    for (std::size_t i = 0; i < n_; ++i) numbers_[i] = apply(back, numbers_[i]);
    round(numbers_);
    std::uint64_t inexact = 0;
    for (std::size_t i = 0; i < n_; ++i) {
      const bool both_nan = std::isnan(numbers_[i]) && std::isnan(before_[i]);
      inexact += numbers_[i] == before_[i] || both_nan ? 0U : 1U;
    }
    return inexact;
  }

 private:
  void load(Block& numbers) const { cast_elements(cairn::as_const(run_), view_of(numbers)); }
  void store(Block& numbers) const {
    prepare_rounding(numbers.data(), n_, run_.dtype);
    cast_elements(cairn::as_const(view_of(numbers)), run_);
  }
  // To numbers of the array's type.
  void round(Block& numbers) {
    prepare_rounding(numbers.data(), n_, run_.dtype);
    MutableArrayView narrow = run_;
    narrow.data = scratch_.data();
    narrow.strides = {static_cast<std::int64_t>(run_.element_size)};
    cast_elements(cairn::as_const(view_of(numbers)), narrow);
    cast_elements(cairn::as_const(narrow), view_of(numbers));
  }
  [[nodiscard]] MutableArrayView view_of(Block& numbers) const {
    return {reinterpret_cast<std::byte*>(numbers.data()),
            DType::kFloat64,
            sizeof(double),
            run_.shape,
            {static_cast<std::int64_t>(sizeof(double))}};
  }

  const AffineFunction& function_;
  const MutableArrayView& run_;
  std::size_t n_;
  Block before_, numbers_;  // NOLINT(cppcoreguidelines-pro-type-member-init)
  std::array<std::byte, kAffineBlock * sizeof(double)> scratch_;
};

// The same elements in the order of the memory, with as few axes as possible. At least one.
MutableArrayView in_memory_order(const MutableArrayView& view) {
  std::vector<std::size_t> axes;
  for (std::size_t d = 0; d < view.shape.size(); ++d)
    if (view.shape[d] != 1) axes.push_back(d);
  std::ranges::stable_sort(
      axes, [&](std::size_t a, std::size_t b) { return view.strides[a] > view.strides[b]; });
  MutableArrayView out = view;
  out.shape.clear();
  out.strides.clear();
  for (const std::size_t d : axes) {
    if (!out.shape.empty() && out.strides.back() == view.shape[d] * view.strides[d]) {
      out.shape.back() *= view.shape[d];
      out.strides.back() = view.strides[d];
    } else {
      out.shape.push_back(view.shape[d]);
      out.strides.push_back(view.strides[d]);
    }
  }
  if (out.shape.empty()) {
    out.shape = {1};
    out.strides = {static_cast<std::int64_t>(out.element_size)};
  }
  return out;
}

// Works on rows along the last axis.
std::uint64_t apply_to(const AffineFunction& function, const MutableArrayView& out,
                       Executor& executor) {
  const MutableArrayView all = in_memory_order(out);
  const std::int64_t columns = all.shape.back();
  const std::int64_t rows = element_count(all.shape) / std::max<std::int64_t>(columns, 1);
  const std::int64_t blocks = (columns + kAffineBlock - 1) / kAffineBlock;
  std::atomic<std::uint64_t> inexact = 0;
  const auto work = [&](std::int64_t task) {
    std::int64_t row = task / blocks;
    const std::int64_t first = task % blocks * kAffineBlock;
    MutableArrayView run = all;
    run.data += first * all.strides.back();
    for (std::size_t d = all.shape.size() - 1; d-- > 0; row /= all.shape[d])
      run.data += row % all.shape[d] * all.strides[d];
    run.shape = {std::min(kAffineBlock, columns - first)};
    run.strides = {all.strides.back()};
    inexact += BlockWork(function, run).run();
  };
  // Short rows go to a worker together.
  const std::int64_t tasks = rows * blocks;
  const std::int64_t group = std::max<std::int64_t>(
      1, 16 * kAffineBlock / std::clamp<std::int64_t>(columns, 1, kAffineBlock));
  executor.for_each(static_cast<std::size_t>((tasks + group - 1) / group), [&](std::size_t g) {
    const auto first = static_cast<std::int64_t>(g) * group;
    for (std::int64_t task = first; task < std::min(tasks, first + group); ++task) work(task);
  });
  return inexact;
}

class AffineLeaf final : public LazyArray {
 public:
  AffineLeaf(LazyPtr array, const AffineFunction& function, std::shared_ptr<AffineCounts> counts)
      : LazyArray(array->dtype(), array->shape(), array->chunk_shape()),
        array_(std::move(array)),
        function_(function),
        counts_(std::move(counts)) {}

  void read(const Box& box, const MutableArrayView& out, LazyReads& reads) const override {
    array_->read(box, out, reads);
    reads.computed.push_back([this, out, context = reads.context] {
      counts_->inexact += apply_to(function_, out, context.executor);
      counts_->computed += static_cast<std::uint64_t>(element_count(out.shape));
    });
  }
  void add_sources(std::vector<std::size_t>& sources) const override {
    array_->add_sources(sources);
  }
  [[nodiscard]] std::string text(const Checkpoint& source) const override {
    const std::string x = array_->text(source);
    const auto [scale, offset, inverse] = function_;
    if (offset == 0) return fmt::format("{} {} {}", x, inverse ? '/' : '*', scale);
    if (scale == 1) return fmt::format("({} {} {})", x, inverse ? '-' : '+', offset);
    return inverse ? fmt::format("({} - {}) / {}", x, offset, scale)
                   : fmt::format("({} * {} + {})", x, scale, offset);
  }

 private:
  LazyPtr array_;
  AffineFunction function_;
  std::shared_ptr<AffineCounts> counts_;
};

}  // namespace

LazyPtr lazy_affine(LazyPtr array, const AffineFunction& function,
                    std::shared_ptr<AffineCounts> counts) {
  if (dtype_kind(array->dtype()) != DTypeKind::kFloat)
    invalid_argument(fmt::format("only floating-point arrays can be scaled, not {}",
                                 dtype_name(array->dtype())));
  if (!std::isfinite(function.scale) || function.scale == 0 || !std::isfinite(function.offset))
    invalid_argument(fmt::format("x * {} + {}: expected finite numbers, and a scale that is not 0",
                                 function.scale, function.offset));
  if (function.scale == 1 && function.offset == 0) return array;
  return std::make_shared<AffineLeaf>(std::move(array), function, std::move(counts));
}

}  // namespace cairn::inline v0
