// box_table.h -- numbers distinct boxes. Thousands of devices may need parts of an array; the table
// shows which of them need the same part.
#pragma once

#include <cairn/types.h>

#include <cstddef>
#include <map>
#include <tuple>
#include <utility>

namespace cairn::inline v0::handlers {

// Orders boxes by origin, then by shape.
struct BoxLess {
  bool operator()(const Box& a, const Box& b) const {
    return std::tie(a.origin, a.shape) < std::tie(b.origin, b.shape);
  }
};

// Gives each distinct box a number when it is first added.
template <class Less = BoxLess>
class BoxTable {
 public:
  explicit BoxTable(Less less = {}) : numbers_(std::move(less)) {}

  // Returns the box's number, counted from 0, and whether the box is new. Logarithmic in the number
  // of boxes.
  std::pair<std::size_t, bool> add(const Box& box) {
    const auto [entry, is_new] = numbers_.try_emplace(box, numbers_.size());
    return {entry->second, is_new};
  }

 private:
  std::map<Box, std::size_t, Less> numbers_;
};

}  // namespace cairn::inline v0::handlers
