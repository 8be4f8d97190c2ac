// box_cover.cc -- checks a cover by comparing contributions at the corners of boxes.
//
// Each box contributes +1 at its lowest corner, and -1 and +1 in turn at its other corners. The
// number of boxes that cover an element is the sum of the contributions at all points that are at
// most the element in every dimension. So the boxes cover the same elements as `whole` if the
// contributions are equal at every point. The first point in C order at which they differ is the
// first element that is covered more than once, or not at all.
#include <cairn/array/box_cover.h>

#include <cairn/array/box.h>

#include <algorithm>
#include <utility>

namespace cairn::inline v0 {
namespace {

constexpr std::size_t kMostAxes = 12;  // limit for examining all corners

// Returns the axes along which some box is shorter than the whole.
std::vector<std::size_t> cut_axes(const Box& whole, std::span<const Box> boxes) {
  std::vector<std::size_t> axes;
  for (std::size_t d = 0; d < whole.rank(); ++d)
    if (std::any_of(boxes.begin(), boxes.end(),
                    [&](const Box& box) { return box.shape[d] != whole.shape[d]; }))
      axes.push_back(d);
  return axes;
}

// Numbers the points of the cut axes in C order. A corner may lie one past the end.
class Points {
 public:
  Points(const Box& whole, std::vector<std::size_t> axes)
      : whole_(&whole), axes_(std::move(axes)), strides_(axes_.size()) {
    std::uint64_t stride = 1;
    for (std::size_t i = axes_.size(); i-- > 0;) {
      strides_[i] = stride;
      fit_ = fit_ && !__builtin_mul_overflow(
                         stride, static_cast<std::uint64_t>(whole.shape[axes_[i]]) + 1, &stride);
    }
  }
  // Returns whether all points have distinct numbers and the number of corners is within the limit.
  [[nodiscard]] bool fit() const { return fit_ && axes_.size() <= kMostAxes; }

  struct Corner {
    std::uint64_t point;
    std::int64_t adds;
  };
  void add_corners(const Box& box, std::int64_t sign, std::vector<Corner>& out) const {
    for (std::uint64_t corner = 0; corner < std::uint64_t{1} << axes_.size(); ++corner) {
      Corner at{0, sign};
      for (std::size_t i = 0; i < axes_.size(); ++i) {
        const bool high = (corner >> i & 1U) != 0;
        const std::size_t d = axes_[i];
        at.point += strides_[i] * static_cast<std::uint64_t>(box.origin[d] - whole_->origin[d] +
                                                             (high ? box.shape[d] : 0));
        if (high) at.adds = -at.adds;
      }
      out.push_back(at);
    }
  }
  [[nodiscard]] std::vector<std::int64_t> at(std::uint64_t point) const {
    std::vector<std::int64_t> out = whole_->origin;
    for (std::size_t i = 0; i < axes_.size(); ++i) {
      out[axes_[i]] += static_cast<std::int64_t>(point / strides_[i]);
      point %= strides_[i];
    }
    return out;
  }

 private:
  const Box* whole_;
  std::vector<std::size_t> axes_;
  std::vector<std::uint64_t> strides_;
  bool fit_ = true;
};

bool holds(const Box& box, std::span<const std::int64_t> point) {
  for (std::size_t d = 0; d < point.size(); ++d)
    if (point[d] < box.origin[d] || point[d] - box.origin[d] >= box.shape[d]) return false;
  return true;
}

std::optional<CoverFault> by_corners(const Box& whole, std::span<const Box> boxes,
                                     const Points& points) {
  std::vector<Points::Corner> corners;
  points.add_corners(whole, -1, corners);
  for (const Box& box : boxes) points.add_corners(box, 1, corners);
  std::sort(corners.begin(), corners.end(),
            [](const auto& a, const auto& b) { return a.point < b.point; });
  for (std::size_t i = 0; i < corners.size();) {
    const std::uint64_t point = corners[i].point;
    std::int64_t sum = 0;
    for (; i < corners.size() && corners[i].point == point; ++i) sum += corners[i].adds;
    if (sum == 0) continue;
    CoverFault fault{{}, points.at(point)};
    for (std::size_t b = 0; b < boxes.size() && fault.boxes.size() < 2; ++b)
      if (holds(boxes[b], fault.point)) fault.boxes.push_back(b);
    return fault;
  }
  return std::nullopt;
}

// Appends the part of `rest` outside `box`, as boxes.
void cut_out(const Box& rest, const Box& box, std::vector<Box>& out) {
  const auto shared = intersect(rest, box);
  if (!shared) return out.push_back(rest);
  Box left = rest;
  for (std::size_t d = 0; d < rest.rank(); ++d) {
    const std::int64_t begin = shared->origin[d], end = begin + shared->shape[d],
                       left_end = left.origin[d] + left.shape[d];
    for (const auto& [from, to] : {std::pair(left.origin[d], begin), std::pair(end, left_end)}) {
      if (from == to) continue;
      out.push_back(left);
      out.back().origin[d] = from;
      out.back().shape[d] = to - from;
    }
    left.origin[d] = begin;
    left.shape[d] = end - begin;
  }
}

std::optional<CoverFault> by_pairs(const Box& whole, std::span<const Box> boxes) {
  std::optional<CoverFault> first;
  const auto consider = [&](std::vector<std::size_t> which,
                            const std::vector<std::int64_t>& point) {
    if (!first || point < first->point) first = CoverFault{std::move(which), point};
  };
  for (std::size_t b = 1; b < boxes.size(); ++b)
    for (std::size_t a = 0; a < b; ++a)
      if (const auto shared = intersect(boxes[a], boxes[b])) consider({a, b}, shared->origin);
  if (first) return first;
  std::vector<Box> missing = {whole};
  for (const Box& box : boxes) {
    std::vector<Box> left;
    for (const Box& rest : missing) cut_out(rest, box, left);
    missing = std::move(left);
  }
  for (const Box& box : missing) consider({}, box.origin);
  return first;
}

}  // namespace

std::optional<CoverFault> cover_fault(const Box& whole, std::span<const Box> boxes) {
  if (const Points points(whole, cut_axes(whole, boxes)); points.fit())
    return by_corners(whole, boxes, points);
  return by_pairs(whole, boxes);
}

}  // namespace cairn::inline v0
