// transforms.h -- maps a stored tree onto a target tree: rename, compute, fall back. Corresponds to
// Orbax's Transform and RestoreTransform.
//
// Keys are paths joined with '/', as in Orbax, and only with '/': "params/dense/0/kernel". The name
// of a transform is a regular expression in Python's syntax that must match a whole output key. All
// transforms that match a key are applied in order; the last one that gives a value wins.
#pragma once

#include <cairn/tree.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#pragma GCC visibility push(default)
namespace cairn::inline v0 {

// Computes an output value from the stored value.
using ValueFn = std::function<Tree(const Tree& stored)>;
// Computes an output value from its key and the stored tree, in which all leaves that were not read
// are Placeholders.
using MultiValueFn = std::function<Tree(std::string_view key, const Tree& stored)>;

// How to make the values of the output keys that match.
struct Transform {
  // The stored key to take the value from; \1 and \g<name> are the groups that the transform's own
  // expression matched. None: the output key itself. Excludes use_fallback and multi_value_fn.
  std::optional<std::string> original_key = {};
  // Take the value from the source that is not the default (see UnmentionedKeys). Excludes all
  // other members.
  bool use_fallback = false;
  ValueFn value_fn = {};  // applied to the value; excludes multi_value_fn
  // Computes the value from any stored leaves; requires multi_value_fn_input_args.
  MultiValueFn multi_value_fn = {};
  // Regular expressions of the stored keys that multi_value_fn uses. The caller keeps the arguments
  // with which these leaves are restored (in Orbax, one RestoreArgs each); PlannedRead::input says
  // which one applies.
  std::optional<std::vector<std::string>> multi_value_fn_input_args = {};
};

// (regular expression, transform) pairs in the order of application. Orbax's order is that in which
// JAX flattens dicts: sorted, level by level.
using Transforms = std::vector<std::pair<std::string, Transform>>;
// The transforms of a nested dict with leaves Tree(Transform{...}): keys joined with '/', in
// JAX's order. A duplicate key keeps the place of the first and the value of the last. Throws
// invalid_argument for any other leaf.
Transforms flatten_transforms(const Tree& tree);

// The value of an output key that no transform matches. Orbax's transforms_default_to_original.
enum class UnmentionedKeys : std::uint8_t {
  // The stored value, if there is one. use_fallback then gives the target's value.
  kStored,
  // The target's value. use_fallback then gives the stored value.
  kTarget,
};

// Why a stored leaf is read.
enum class ReadReason : std::uint8_t {
  kTransform,    // a transform uses it for an output key, under the same or another key
  kInput,        // one of multi_value_fn_input_args matches it
  kUnmentioned,  // no transform matches its key, and the target has the key
  kFallback,     // use_fallback uses it
};
// A stored leaf to be read.
struct PlannedRead {
  std::size_t stored = 0;  // index into the stored paths
  ReadReason reason = ReadReason::kTransform;
  // All reasons but kInput: index into the plan's outputs. The leaf is restored with the arguments
  // of this output.
  std::size_t output = 0;
  // kInput: the leaf is restored with the arguments of
  // transforms[transform].second.multi_value_fn_input_args[input].
  std::size_t transform = 0, input = 0;
};

// One operation on an output. The operations of an output run in order; each replaces the value.
struct TransformStep {
  // Index of the stored leaf whose value is taken, after value_fn if the transform has one. None:
  // multi_value_fn computes the value.
  std::optional<std::size_t> stored = {};
  std::optional<std::size_t> transform = {};  // index into transforms; none: an unmentioned key
};
// An output leaf and how it is made.
struct TransformOutput {
  KeyPath path;                      // path in the target
  std::string key;                   // the path as a key
  std::vector<TransformStep> steps;  // empty: the target's own value stays
};

// The result of plan_transforms.
struct TransformPlan {
  Transforms transforms;
  std::vector<PlannedRead> reads;  // in the order of the stored paths, each at most once
  // The leaves of the target, without empty nodes, in JAX's order.
  std::vector<TransformOutput> outputs;
  std::vector<KeyPath> stored;  // every stored path, as given
};

// Plans the reads and operations; reads nothing. `stored` are the paths of every leaf and empty
// node of the checkpoint. Throws invalid_argument for members that exclude each other, for a
// malformed regular expression or original_key (with the position), for a multi_value_fn without
// inputs, for an original key that is not stored, and for two leaves with one key; out_of_range for
// a pattern whose matching takes too long.
TransformPlan plan_transforms(std::vector<KeyPath> stored, const Tree& target,
                              Transforms transforms,
                              UnmentionedKeys unmentioned = UnmentionedKeys::kStored);

// Executes a plan. `values` are the values of plan.reads, in their order; other stored leaves
// appear to multi_value_fn as Placeholders. Returns the target's structure with the planned values.
// A target without leaves that is itself empty gives an empty dict.
Tree apply_transforms(const TransformPlan& plan, std::vector<Tree> values, const Tree& target);

// Plans and executes in one step, for a stored tree in memory, all of whose leaves can be read.
Tree apply_transforms(const Tree& stored, const Tree& target, Transforms transforms,
                      UnmentionedKeys unmentioned = UnmentionedKeys::kStored);

// ---- trees by their paths ----

// All leaves of the trees; if two leaves have one path, that of the later tree. With a target, its
// structure; else a dict for each level, also for lists. Empty nodes are left out. Throws not_found
// if the target has a leaf that no tree has, invalid_argument if a path is a leaf in one tree and
// has members in another.
Tree merge_trees(std::span<const Tree> trees, const std::optional<Tree>& target = {});
// The leaves of the last tree whose paths all trees have. As merge_trees. Throws invalid_argument
// if there are no trees.
Tree intersect_trees(std::span<const Tree> trees, const std::optional<Tree>& target = {});

}  // namespace cairn::inline v0
#pragma GCC visibility pop
