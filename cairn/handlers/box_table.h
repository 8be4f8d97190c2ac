// box_table.h -- boxes, each numbered when it is first seen: of the thousands of devices that want
// parts of an array, who wants the same one.
#pragma once

#include <cairn/types.h>

#include <cstddef>
#include <map>
#include <tuple>
#include <utility>

namespace cairn::handlers {

// By where they begin, then by their extents.
struct BoxLess {
  bool operator()(const Box& a, const Box& b) const {
    return std::tie(a.origin, a.shape) < std::tie(b.origin, b.shape);
  }
};

template <class Less = BoxLess>
class BoxTable {
 public:
  explicit BoxTable(Less less = {}) : numbers_(std::move(less)) {}

  // The box's number, counted from 0, and whether it is new. Logarithmic in the number of boxes.
  std::pair<std::size_t, bool> add(const Box& box) {
    const auto [entry, is_new] = numbers_.try_emplace(box, numbers_.size());
    return {entry->second, is_new};
  }

 private:
  std::map<Box, std::size_t, Less> numbers_;
};

}  // namespace cairn::handlers
