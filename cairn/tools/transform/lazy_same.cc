// lazy_same.cc -- one array in place of several that must be equal. Each part is compared when it
// is read.
#include <cairn/tools/transform/lazy_array.h>
#include <cairn/tools/transform/lazy_pieces.h>

#include <cairn/array/box.h>
#include <cairn/base/errors.h>

#include <fmt/format.h>

#include <algorithm>

namespace cairn::inline v0 {
namespace {

class Same final : public LazyArray {
 public:
  explicit Same(std::vector<LazyPtr> arrays)
      : LazyArray(arrays[0]->dtype(), arrays[0]->shape(), arrays[0]->chunk_shape()),
        arrays_(std::move(arrays)) {}

  void read(const Box& box, const MutableArrayView& out, LazyReads& reads) const override {
    arrays_[0]->read(box, out, reads);
    reads.computed.push_back([this, box, out, context = reads.context] {
      const auto cost = [&](const Box& part) {
        return 2 * static_cast<std::uint64_t>(element_count(part.shape)) * dtype_size(dtype());
      };
      in_pieces(box, context.memory, cost, [&](const Box& piece) {
        Array first = Array::allocate(dtype(), piece.shape);
        copy_elements(cairn::as_const(subview(out, relative_to(piece, box.origin))),
                      first.mutable_view());
        for (std::size_t i = 1; i < arrays_.size(); ++i) compare(i, piece, first, context);
      });
    });
  }
  void add_sources(std::vector<std::size_t>& sources) const override {
    for (const LazyPtr& array : arrays_) array->add_sources(sources);
  }
  [[nodiscard]] std::string text(const Checkpoint& source) const override {
    std::string text = "same(";
    for (const LazyPtr& array : arrays_)
      text += (&array == arrays_.data() ? "" : ", ") + array->text(source);
    return text + ")";
  }

 private:
  void compare(std::size_t i, const Box& piece, const Array& first,
               const LazyContext& context) const {
    const Array other = read_piece(*arrays_[i], piece, context);
    if (std::ranges::equal(other.bytes(), first.bytes())) return;
    throw Error(Code::kFailedPrecondition,
                fmt::format("{} and {} must be equal, but differ in {}; only one of them can be "
                            "kept",
                            arrays_[0]->text(context.source), arrays_[i]->text(context.source),
                            box_text(piece)));
  }

  std::vector<LazyPtr> arrays_;
};

}  // namespace

LazyPtr lazy_same(std::vector<LazyPtr> arrays) {
  if (arrays.empty()) invalid_argument("no arrays to compare");
  for (const LazyPtr& array : arrays)
    if (array->dtype() != arrays[0]->dtype() || array->shape() != arrays[0]->shape())
      invalid_argument(fmt::format("arrays that must be equal have {} {} and {} {}",
                                   dtype_name(arrays[0]->dtype()), shape_text(arrays[0]->shape()),
                                   dtype_name(array->dtype()), shape_text(array->shape())));
  if (arrays.size() == 1) return arrays[0];
  return std::make_shared<Same>(std::move(arrays));
}

}  // namespace cairn::inline v0
