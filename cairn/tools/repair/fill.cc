#include <cairn/tools/repair/fill.h>

#include <cairn/array/box.h>
#include <cairn/base/errors.h>
#include <cairn/base/text.h>
#include <cairn/tools/repair/leaf_check.h>

#include <fmt/format.h>

#include <cmath>
#include <limits>

namespace cairn::inline v0 {
namespace {

// NaN in the type of the leaf.
Bytes nan_of(const TensorInfo& leaf) {
  const DTypeKind kind = dtype_kind(leaf.dtype);
  double nan = std::numeric_limits<double>::quiet_NaN();
  double back = 0;
  Bytes element(leaf.element_size);
  if (leaf.dtype != DType::kOpaque && (kind == DTypeKind::kFloat || kind == DTypeKind::kComplex)) {
    const MutableArrayView wide = make_view(
        MutableByteView(reinterpret_cast<std::byte*>(&nan), sizeof nan), DType::kFloat64, Shape{});
    const MutableArrayView narrow = make_view(MutableByteView(element), leaf.dtype, Shape{});
    cast_elements(as_const(wide), narrow);
    cast_elements(as_const(narrow),
                  make_view(MutableByteView(reinterpret_cast<std::byte*>(&back), sizeof back),
                            DType::kFloat64, Shape{}));
  }
  if (!std::isnan(back)) invalid_argument(leaf.dtype_name + " has no NaN");
  return element;
}

}  // namespace

std::optional<FilledBoxes> BoxFiller::fill(const std::string& name, const TensorInfo& leaf,
                                           const std::vector<Box>& lost) const {
  if (how_ == LostElements::kLeaveOut) return std::nullopt;
  if (how_ == LostElements::kCheckpoint) return from_checkpoint(name, leaf, lost);
  if (lost.empty()) invalid_argument("its type and shape are unknown");
  FilledBoxes filled{.lost = lost, .element = Bytes(leaf.element_size)};
  if (how_ == LostElements::kNan) filled.element = nan_of(leaf);
  return filled;
}

FilledBoxes BoxFiller::from_checkpoint(const std::string& name, const TensorInfo& leaf,
                                       const std::vector<Box>& lost) const {
  if (lost.empty()) invalid_argument("its type and shape are unknown");
  const std::string path = from_->info().path;
  const std::size_t index = with_context([&] { return path; }, [&] { return from_->index(name); });
  const TensorInfo other = from_->tensors()[index];
  if (other.dtype_name != leaf.dtype_name || other.shape != leaf.shape)
    invalid_argument(fmt::format("{}: it is {}{} there, not {}{}", path, other.dtype_name,
                                 shape_text(other.shape), leaf.dtype_name, shape_text(leaf.shape)));
  for (const Box& box : lost)
    if (const std::string why = why_unreadable(*from_, index, box); !why.empty())
      data_loss(path + ": " + why);
  return {.lost = lost, .element = {}, .from = from_, .index = index};
}

}  // namespace cairn::inline v0
