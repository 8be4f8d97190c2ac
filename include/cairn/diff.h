// diff.h -- compares two checkpoints: structure and values.
#pragma once

#include <cairn/checkpoint.h>
#include <cairn/distributed.h>
#include <cairn/types.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#pragma GCC visibility push(default)
namespace cairn::inline v0 {

// Options of diff().
struct DiffOptions {
  std::vector<std::string> include = {}, exclude = {};  // globs over names; empty include: all
  // Values are equal if |a - b| <= atol + rtol * |b| in float64; NaN equals NaN. With both 0,
  // values are equal if their bits are. Negative or infinite tolerances are invalid_argument.
  double rtol = 0, atol = 0;
  // Compare arrays of different types as numbers: as integers if 64 bits hold both types, else in
  // float64.
  bool ignore_dtype = false;
  // Also measure all values of the arrays that differ: rms_error, relative_error and cosine. Every
  // value is then converted to float64, also where the bits are the same.
  bool measures = true;
  bool strict = false;  // another typestr ("np.ndarray" for "jax.Array") counts as a difference
  Resources resources = {};  // memory: bytes of both checkpoints held at once
  ProgressFn progress = {};
  // Several processes that see the same checkpoints compare them together. Each compares its share
  // of the bytes, and all return the report of a single process.
  MultiprocessingOptions multiprocessing = {};
};

// How the values of two arrays of the same shape differ. NaN and infinities count among the
// elements that differ.
struct ValueDiff {
  std::uint64_t different = 0;  // elements that differ
  std::uint64_t bits_only = 0;  // of `different`: equal as numbers (0.0 and -0.0), or both NaN
  std::uint64_t within = 0;     // elements that are different numbers within the tolerance
  // number of NaN and infinite elements in a and in b
  std::uint64_t nans_a = 0, nans_b = 0, infs_a = 0, infs_b = 0;
  // NaN in one array only; infinite in one array only, or with different signs.
  std::uint64_t nan_mismatches = 0, inf_mismatches = 0;
  // Over the finite numbers that differ. max_rel_error is |a - b| / |b| of one element, where b is
  // not 0: large where b is nearly 0, even if the arrays are close. relative_error is not.
  std::optional<double> max_abs_error, max_rel_error;
  // The measures of DiffOptions, over all pairs of finite numbers, those that are equal included. A
  // pair with a NaN or an infinity on either side does not count. Sums have about 100 bits before
  // they are rounded to float64, so the order of the elements does not change them. None if there
  // is no such pair, if the sum overflows float64, or as follows.
  std::optional<double> rms_error;       // square root of the mean of |a - b|^2
  std::optional<double> relative_error;  // max |a - b| / max |b|; none if all b are 0
  // sum of a * conj(b), its real part, / (norm of a * norm of b); none if a norm is 0
  std::optional<double> cosine;
  std::optional<std::uint64_t> first;  // index of the first element that differs, in C order
  // Whether any element is a different number or has different bits.
  [[nodiscard]] bool any() const { return different + within > 0; }
  // Number of elements where NaN or an infinity differs. No measure covers them.
  [[nodiscard]] std::uint64_t non_finite() const { return nan_mismatches + inf_mismatches; }
};

// Result of comparing one leaf.
enum class LeafState : std::uint8_t { kSame, kDifferent, kOnlyInA, kOnlyInB, kUnreadable };
// One checkpoint's view of a leaf.
struct DiffSide {
  LeafKind kind = LeafKind::kArray;  // as in TensorInfo
  std::string typestr, dtype_name;   // as in TensorInfo
  Shape shape;                       // as in TensorInfo
  std::string random_key_impl;       // for a typed PRNG key
  std::string text;                  // value of a string that differs
  std::string error;                 // why the leaf cannot be read; "" if it can
};
// Comparison of one leaf.
struct LeafDiff {
  std::string name;                 // as in TensorInfo
  std::optional<std::string> item;  // as in TensorInfo
  LeafState state = LeafState::kSame;
  DiffSide a, b;  // default-constructed if the leaf is absent
  // what differs: "kind", "dtype", "shape", "random_key", "values"
  std::vector<std::string> differs;
  std::vector<std::string> noted;   // the same words for differences that do not count
  std::optional<ValueDiff> values;  // set if the values were compared and not all are equal
};
// Result of diff().
struct DiffReport {
  // Leaves that are not the same, and leaves with something in `noted`. First the leaves in which
  // a NaN or an infinity differs, then the others; both in the order of A, then B.
  std::vector<LeafDiff> leaves;
  // numbers of leaves
  std::uint64_t same = 0, different = 0, only_in_a = 0, only_in_b = 0, unreadable = 0;
  std::uint64_t non_finite = 0;  // of `different`: leaves in which a NaN or an infinity differs
  std::uint64_t bytes = 0;       // bytes of the compared values, of both checkpoints
  // What A and B lack (CheckpointInfo::missing), and what therefore was not compared.
  std::vector<MissingPart> missing_a, missing_b;
  [[nodiscard]] bool equal() const { return different + only_in_a + only_in_b + unreadable == 0; }
};
// Compares the leaves of the same name (and item, if there are several) within the memory limit. A
// leaf that cannot be read is reported as kUnreadable, and the comparison continues. If both are
// steps of Orbax that were opened as a whole, an item that is one text (JSON, protocol buffer) is a
// string leaf with the name "" of that item. Throws as Checkpoint::check_complete() of A and B.
DiffReport diff(const Checkpoint& a, const Checkpoint& b, const DiffOptions& options = {});
// Whether a NaN or an infinity differs in the leaf: it is in one of the arrays only, or the
// infinities have different signs.
bool differs_in_non_finite(const LeafDiff& leaf);
// The report as JSON text (docs/reference/json.md).
std::string diff_json(const DiffReport& report);
// Index per dimension of an element, given its number in C order.
Shape element_index(std::span<const std::int64_t> shape, std::uint64_t element);

}  // namespace cairn::inline v0
#pragma GCC visibility pop
