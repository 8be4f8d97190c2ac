// lazy_compute.cc -- arrays whose elements are computed: casts, and matrices with a low-rank
// product added. They are computed in pieces that fit the memory.
#include <cairn/tools/transform/lazy_array.h>

#include <cairn/array/box.h>
#include <cairn/base/executor.h>
#include <cairn/tools/transform/lazy_pieces.h>

#include <optional>

namespace cairn::inline v0 {
namespace {

std::uint64_t bytes_of(const Shape& shape, std::size_t element) {
  return static_cast<std::uint64_t>(element_count(shape)) * element;
}

class CastArray final : public LazyArray {
 public:
  CastArray(LazyPtr array, DType dtype)
      : LazyArray(dtype, array->shape(), array->chunk_shape()), array_(std::move(array)) {}

  void read(const Box& box, const MutableArrayView& out, LazyReads& reads) const override {
    if (std::optional<Array> from = reads.stage(array_->dtype(), box.shape)) {
      array_->read(box, from->mutable_view(), reads);
      reads.computed.emplace_back(
          [out, from = *std::move(from)] { cast_elements(from.view(), out); });
      return;
    }
    reads.computed.push_back([this, box, out, context = reads.context] {
      const auto cost = [&](const Box& part) {
        return bytes_of(part.shape, dtype_size(array_->dtype()));
      };
      in_pieces(box, context.memory, cost, [&](const Box& piece) {
        const Array from = read_piece(*array_, piece, context);
        cast_elements(from.view(), subview(out, relative_to(piece, box.origin)));
      });
    });
  }
  void add_sources(std::vector<std::size_t>& sources) const override {
    array_->add_sources(sources);
  }
  [[nodiscard]] std::string text(const Checkpoint& source) const override {
    return std::string(dtype_name(dtype())) + "(" + array_->text(source) + ")";
  }

 private:
  LazyPtr array_;
};

class LowRankSum final : public LazyArray {
 public:
  LowRankSum(LazyPtr w, LazyPtr a, LazyPtr b, double scale)
      : LazyArray(w->dtype(), w->shape(), w->chunk_shape()),
        w_(std::move(w)),
        a_(std::move(a)),
        b_(std::move(b)),
        scale_(scale) {}

  void read(const Box& box, const MutableArrayView& out, LazyReads& reads) const override {
    reads.computed.push_back([this, box, out, context = reads.context] {
      in_pieces(
          box, context.memory, [&](const Box& part) { return cost(part.shape); },
          [&](const Box& piece) {
            compute(piece, subview(out, relative_to(piece, box.origin)), context);
          });
    });
  }
  void add_sources(std::vector<std::size_t>& sources) const override {
    for (const auto* part : {&w_, &a_, &b_}) (*part)->add_sources(sources);
  }
  [[nodiscard]] std::string text(const Checkpoint& source) const override {
    std::string scale = std::to_string(scale_);
    scale.erase(scale.find_last_not_of('0') + 1);
    if (scale.ends_with('.')) scale.pop_back();
    return w_->text(source) + " + " + scale + " * " + a_->text(source) + " @ " + b_->text(source);
  }

 private:
  [[nodiscard]] std::int64_t rank() const { return b_->shape()[0]; }

  // The memory of the sum, and of the factors as stored (read one after the other) and in float64.
  [[nodiscard]] std::uint64_t cost(const Shape& shape) const {
    const std::uint64_t sum = bytes_of(shape, 8 + dtype_size(dtype()));
    return sum + bytes_of({shape[0], rank()}, 8 + dtype_size(a_->dtype())) +
           bytes_of({rank(), shape[1]}, 8 + dtype_size(b_->dtype()));
  }

  static Array wide(const LazyArray& array, const Box& box, const LazyContext& context) {
    Array out = Array::allocate(DType::kFloat64, box.shape);
    cast_elements(read_piece(array, box, context).view(), out.mutable_view());
    return out;
  }

  void compute(const Box& piece, const MutableArrayView& out, const LazyContext& context) const {
    const std::int64_t m = piece.shape[0];
    const std::int64_t n = piece.shape[1];
    Array sum = wide(*w_, piece, context);
    const Array a = wide(*a_, {{piece.origin[0], 0}, {m, rank()}}, context);
    const Array b = wide(*b_, {{0, piece.origin[1]}, {rank(), n}}, context);
    auto* sums = reinterpret_cast<double*>(sum.mutable_view().data);
    const auto* left = reinterpret_cast<const double*>(a.bytes().data());
    const auto* right = reinterpret_cast<const double*>(b.bytes().data());
    context.executor.for_each(static_cast<std::size_t>(m), [&](std::size_t row) {
      std::vector<double> product(static_cast<std::size_t>(n), 0.0);
      const double* factors = left + static_cast<std::int64_t>(row) * rank();
      for (std::int64_t k = 0; k < rank(); ++k)
        for (std::int64_t j = 0; j < n; ++j)
          product[static_cast<std::size_t>(j)] += factors[k] * right[k * n + j];
      double* to = sums + static_cast<std::int64_t>(row) * n;
      for (std::int64_t j = 0; j < n; ++j) to[j] += scale_ * product[static_cast<std::size_t>(j)];
    });
    cast_elements(sum.view(), out);
  }

  LazyPtr w_, a_, b_;
  double scale_;
};

}  // namespace

LazyPtr lazy_cast(LazyPtr array, DType dtype) {
  if (dtype == DType::kOpaque || array->dtype() == DType::kOpaque)
    throw Error(Code::kInvalidArgument, "elements of an opaque type cannot be cast");
  if (array->dtype() == dtype) return array;
  return std::make_shared<CastArray>(std::move(array), dtype);
}

LazyPtr lazy_add_low_rank(LazyPtr w, LazyPtr a, LazyPtr b, double scale) {
  for (const auto* part : {&w, &a, &b})
    if (dtype_kind((*part)->dtype()) != DTypeKind::kFloat)
      throw Error(Code::kInvalidArgument, "a low-rank product needs floating arrays, not " +
                                              std::string(dtype_name((*part)->dtype())));
  const bool matrices = w->shape().size() == 2 && a->shape().size() == 2 && b->shape().size() == 2;
  if (!matrices || a->shape()[0] != w->shape()[0] || b->shape()[1] != w->shape()[1] ||
      a->shape()[1] != b->shape()[0])
    throw Error(Code::kInvalidArgument,
                "w + scale * a @ b needs shapes (m, n), (m, r) and (r, n), not " +
                    shape_text(w->shape()) + ", " + shape_text(a->shape()) + " and " +
                    shape_text(b->shape()));
  return std::make_shared<LowRankSum>(std::move(w), std::move(a), std::move(b), scale);
}

}  // namespace cairn::inline v0
