// transforms.h -- a stored tree mapped onto a wanted one: rename, compute, fall back. Orbax's
// Transform and RestoreTransform.
//
// Keys are paths joined with '/': "params/dense/0/kernel". Transforms are named by regular
// expressions, in Python's dialect, that must match an output key as a whole. All that match a key
// are applied, in their order, and the last one to give a value wins.
#pragma once

#include <cairn/tree.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cairn {

using ValueFn = std::function<Tree(const Tree& stored)>;
// The output key and the stored tree, in which all leaves that were not read are Placeholders.
using MultiValueFn = std::function<Tree(std::string_view key, const Tree& stored)>;

struct Transform {
  // The stored key to take the value from; \1 and \g<name> are what the groups of the transform's
  // own expression matched. None: the output key itself. Excludes use_fallback and multi_value_fn.
  std::optional<std::string> original_key;
  // The value is not to come from where it would by default: see UnmentionedKeys. Excludes all the
  // others.
  bool use_fallback = false;
  ValueFn value_fn;  // applied to the value; excludes multi_value_fn
  // makes the value from any stored leaves; needs multi_value_fn_input_args
  MultiValueFn multi_value_fn;
  // Regular expressions of the stored keys that multi_value_fn uses. What they are to be restored
  // with, in Orbax a RestoreArgs each, is the caller's to keep beside them: PlannedRead says which
  // one it is.
  std::optional<std::vector<std::string>> multi_value_fn_input_args;
};

// In the order in which they are applied. Orbax's is that in which JAX flattens dicts: sorted,
// level by level.
using Transforms = std::vector<std::pair<std::string, Transform>>;
// Of a nested dict with leaves CustomLeaf::of(Transform): keys joined with '/', in JAX's order. A
// key that is there twice has the place of the first and the value of the last. Throws
// invalid_argument for another leaf.
Transforms flatten_transforms(const Tree& tree);

// Orbax's transforms_default_to_original.
enum class UnmentionedKeys : std::uint8_t {
  // leaves that no transform matches keep what is stored, if anything; use_fallback keeps the
  // target's value
  kStored,
  kTarget,  // they keep the target's value; use_fallback takes what is stored
};

enum class ReadReason : std::uint8_t {
  kTransform,    // a transform takes it for an output key, under another key or its own
  kInput,        // one of multi_value_fn_input_args matches it
  kUnmentioned,  // no transform matches its key, and the target has it
  kFallback,     // use_fallback takes it
};
// A stored leaf that is to be read.
struct PlannedRead {
  std::size_t stored = 0;  // index into the stored paths
  ReadReason reason = ReadReason::kTransform;
  // all but kInput: it is restored with the arguments of this leaf: index into the plan's outputs
  std::size_t output = 0;
  // kInput: with those of transforms[transform].second.multi_value_fn_input_args[input]
  std::size_t transform = 0, input = 0;
};

// One thing done to one output. They are done in order; each replaces the value.
struct TransformStep {
  // its value, put through value_fn if there is a transform with one; none: multi_value_fn makes it
  std::optional<std::size_t> stored;
  std::optional<std::size_t> transform;  // none: an unmentioned key
};
struct TransformOutput {
  KeyPath path;  // in the target
  std::string key;
  std::vector<TransformStep> steps;  // none: the target's own value stays
};

struct TransformPlan {
  Transforms transforms;
  std::vector<PlannedRead> reads;  // in the order of the stored paths, each at most once
  // the leaves of the target, but no empty nodes, in JAX's order
  std::vector<TransformOutput> outputs;
  std::vector<KeyPath> stored;  // every stored path, as given
};

// Decides without reading. `stored` are the paths of every leaf and empty node of the checkpoint.
// Throws invalid_argument for fields that exclude each other, a regular expression or original_key
// that is none (with the position), a multi_value_fn without inputs, an original key that is not
// stored, two leaves with one key; out_of_range for a pattern whose matching takes too long.
TransformPlan plan_transforms(std::vector<KeyPath> stored, const Tree& target,
                              Transforms transforms,
                              UnmentionedKeys unmentioned = UnmentionedKeys::kStored);

// The output: the target's structure with the values that the plan says. `values` are those of
// plan.reads, in their order; other stored leaves appear to multi_value_fn as Placeholders. A
// target without leaves that is itself empty gives an empty dict.
Tree apply_transforms(const TransformPlan& plan, std::vector<Tree> values, const Tree& target);

// Both at once, for a tree that is in memory: every leaf of it can be read.
Tree apply_transforms(const Tree& stored, const Tree& target, Transforms transforms,
                      UnmentionedKeys unmentioned = UnmentionedKeys::kStored);

}  // namespace cairn
