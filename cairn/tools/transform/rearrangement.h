// rearrangement.h -- the notation of einops without reduction: "(h c p) e -> e h (p c)". Each side
// lists the axes of an array; a group in brackets is one axis that is cut into several, the first
// varying slowest. A 1 is an axis of one element.
#pragma once

#include <cairn/types.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cairn::inline v0 {

// A parsed rearrangement. Both sides have the same parts, each once.
struct Rearrangement {
  using Axes = std::vector<std::vector<std::size_t>>;  // for each axis, its parts: indices of names

  std::vector<std::string> names;  // of the parts, in the order of the left side
  Axes from, to;
  std::string text;

  // The same with its sides exchanged. `names` keeps its order.
  [[nodiscard]] Rearrangement inverse() const;
};

// Parses "AXES -> AXES", or "AXES", which is the identity. Throws invalid_argument.
Rearrangement parse_rearrangement(std::string_view text);

// A side as text: "(h c p) e".
std::string axes_text(const Rearrangement& rearrangement, const Rearrangement::Axes& axes);

// Returns the extent of every part for an array of shape `shape` on the left side. `known` has an
// extent for each name, or none. Throws invalid_argument, naming parts and extents, for a shape
// that does not fit, and for an axis with two unknown parts.
std::vector<std::int64_t> solve_extents(const Rearrangement& rearrangement, const Shape& shape,
                                        const std::vector<std::optional<std::int64_t>>& known);

}  // namespace cairn::inline v0
