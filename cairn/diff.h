// diff.h -- compares two checkpoints: structure and values.
#pragma once

#include <cairn/checkpoint.h>
#include <cairn/distributed.h>
#include <cairn/types.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace cairn {

struct DiffOptions {
  // Globs over names; include empty = all.
  std::vector<std::string> include = {}, exclude = {};
  // Values are equal if |a - b| <= atol + rtol * |b|, in float64, and NaN equals NaN. Both 0: equal
  // is the same bits.
  double rtol = 0, atol = 0;
  // compare arrays of different types as numbers: integers exactly if 64 bits hold both, else as
  // float64
  bool ignore_dtype = false;
  bool strict = false;  // another kind ("np.ndarray" for "jax.Array") is a difference, too
  std::uint64_t memory = std::uint64_t{1} << 28U;  // bytes of both sides that are held at once
  ProgressFn progress = {};
  // Several processes that see the same checkpoints: each compares its share of the bytes, and all
  // get the report of one process.
  MultiprocessingOptions multiprocessing = {};
};

// How the values of two arrays of one shape differ. NaN and infinities are counted among the
// elements that differ.
struct ValueDiff {
  std::uint64_t different = 0;  // elements
  std::uint64_t bits_only = 0;  // of these: equal as numbers (0.0 and -0.0), or both NaN
  std::uint64_t within = 0;     // elements that are other numbers, but within the tolerance
  std::uint64_t nans_a = 0, nans_b = 0, infs_a = 0, infs_b = 0;
  // NaN in one alone; infinite in one alone, or of other signs
  std::uint64_t nan_mismatches = 0, inf_mismatches = 0;
  // over finite numbers; the relative one where b is not 0
  std::optional<double> max_abs_error, max_rel_error;
  // the first element that differs, counted in C order
  std::optional<std::uint64_t> first;
  [[nodiscard]] bool any() const { return different + within > 0; }
};

enum class LeafState : std::uint8_t { kSame, kDifferent, kOnlyInA, kOnlyInB, kUnreadable };
// One side of a leaf.
struct DiffSide {
  std::string kind, dtype_name;
  Shape shape;
  std::string random_key_impl;  // of a typed PRNG key
  std::string text;             // of a string that differs
  std::string error;            // why it cannot be read; "" if it can
};
struct LeafDiff {
  std::string name;
  std::optional<std::string> item;
  LeafState state = LeafState::kSame;
  DiffSide a, b;                     // empty where the leaf is not there
  std::vector<std::string> differs;  // "kind", "dtype", "shape", "random_key", "values"
  std::vector<std::string> noted;    // the same words: what differs, but does not count
  std::optional<ValueDiff> values;   // if they were compared and are not all equal
};
struct DiffReport {
  // those that are not the same, and those with something noted; in A's order, then B's
  std::vector<LeafDiff> leaves;
  std::uint64_t same = 0, different = 0, only_in_a = 0, only_in_b = 0, unreadable = 0;
  std::uint64_t bytes = 0;  // of values compared, of both sides
  [[nodiscard]] bool equal() const { return different + only_in_a + only_in_b + unreadable == 0; }
};
// Compares leaves of the same name (and item, where there are several) in bounded memory. What
// cannot be read is reported, and the others are compared all the same.
DiffReport diff(const Checkpoint& a, const Checkpoint& b, const DiffOptions& options = {});
std::string diff_json(const DiffReport& report);
// Where an element is, given its number in C order.
Shape element_index(std::span<const std::int64_t> shape, std::uint64_t element);

}  // namespace cairn
