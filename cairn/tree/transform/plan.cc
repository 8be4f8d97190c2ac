// plan.cc -- decides which stored leaves a set of transforms needs and how each output is made,
// before anything is read.
#include <cairn/orbax/transforms.h>

#include <cairn/tree/transform/regex.h>
#include <cairn/tree/transform/transform_keys.h>

#include <algorithm>
#include <unordered_map>

namespace cairn::inline v0 {
namespace {

// Refuses fields that exclude each other in every use.
void check_fields(const std::string& pattern, const Transform& t) {
  const auto exclude = [&](bool a, bool b, const char* names) {
    if (a && b)
      throw Error(Code::kInvalidArgument,
                  "transform '" + pattern + "': " + names + " exclude each other");
  };
  const bool inputs = t.multi_value_fn_input_args.has_value();
  const bool multi = static_cast<bool>(t.multi_value_fn);
  exclude(t.original_key.has_value(), t.use_fallback, "original_key and use_fallback");
  exclude(t.original_key.has_value(), multi, "original_key and multi_value_fn");
  exclude(t.use_fallback, static_cast<bool>(t.value_fn), "use_fallback and value_fn");
  exclude(t.use_fallback, multi, "use_fallback and multi_value_fn");
  exclude(static_cast<bool>(t.value_fn), multi, "value_fn and multi_value_fn");
  if (inputs && !multi)
    throw Error(Code::kInvalidArgument,
                "transform '" + pattern + "': multi_value_fn_input_args without multi_value_fn");
}

using KeyIndex = std::unordered_map<std::string, std::size_t>;

// Maps each key to its position. `what` names the keys in the message.
KeyIndex index_keys(const std::vector<std::string>& keys, const char* what) {
  KeyIndex index;
  index.reserve(keys.size());
  for (std::size_t i = 0; i < keys.size(); ++i)
    if (!index.emplace(keys[i], i).second)
      throw Error(Code::kInvalidArgument,
                  std::string("two leaves of the ") + what + " have the key '" + keys[i] +
                      "': a dict key contains '/', so transforms cannot distinguish them");
  return index;
}

// A transform whose expression matched an output key.
struct Matched {
  std::size_t transform = 0;
  std::string original;  // expanded; only of transforms that take one stored value
};

// The inputs of a transform with a multi_value_fn.
struct Inputs {
  std::size_t transform = 0;
  std::vector<Regex> patterns;
};

class Planner {
 public:
  Planner(TransformPlan& plan, UnmentionedKeys unmentioned)
      : plan_(plan), unmentioned_(unmentioned) {
    for (const auto& [pattern, transform] : plan.transforms) check_fields(pattern, transform);
    for (const KeyPath& path : plan.stored) stored_keys_.push_back(transform_key(path));
    stored_ = index_keys(stored_keys_, "checkpoint");
    std::vector<std::string> keys;
    for (const TransformOutput& output : plan.outputs) keys.push_back(output.key);
    outputs_ = index_keys(keys, "target");
  }

  void plan() {
    match_outputs();
    compile_inputs();
    for (std::size_t i = 0; i < stored_keys_.size(); ++i)
      if (const auto read = plan_read(i)) plan_.reads.push_back(*read);
    for (std::size_t i = 0; i < plan_.outputs.size(); ++i) plan_steps(i);
  }

 private:
  [[nodiscard]] const Transform& transform(std::size_t i) const {
    return plan_.transforms[i].second;
  }

  // Fills matched_ and first_use_. Plain text is looked up, so that a thousand renames are as cheap
  // as one.
  void match_outputs() {
    matched_.resize(plan_.outputs.size());
    for (std::size_t t = 0; t < plan_.transforms.size(); ++t) {
      Regex regex(plan_.transforms[t].first);
      if (!regex.is_literal()) {
        for (std::size_t i = 0; i < plan_.outputs.size(); ++i) match(t, regex, i);
      } else if (const auto found = outputs_.find(regex.pattern()); found != outputs_.end()) {
        match(t, regex, found->second);
      }
    }
  }
  void match(std::size_t t, Regex& regex, std::size_t output) {
    const std::string& key = plan_.outputs[output].key;
    const auto groups = regex.full_match(key);
    if (!groups) return;
    Matched matched{t, ""};
    if (!transform(t).use_fallback && !transform(t).multi_value_fn) {
      matched.original =
          transform(t).original_key ? regex.expand(*transform(t).original_key, *groups) : key;
      first_use_.emplace(matched.original, std::pair(t, output));
    }
    matched_[output].push_back(std::move(matched));
  }

  void compile_inputs() {
    for (std::size_t t = 0; t < plan_.transforms.size(); ++t) {
      if (!transform(t).multi_value_fn) continue;
      inputs_.push_back({t, {}});
      if (transform(t).multi_value_fn_input_args)
        for (const std::string& pattern : *transform(t).multi_value_fn_input_args)
          inputs_.back().patterns.emplace_back(pattern);
    }
  }

  // The first transform that uses a stored leaf decides how it is restored.
  std::optional<PlannedRead> plan_read(std::size_t stored) {
    const std::string& key = stored_keys_[stored];
    const auto use = first_use_.find(key);
    for (Inputs& inputs : inputs_) {
      if (use != first_use_.end() && use->second.first < inputs.transform) break;
      if (!transform(inputs.transform).multi_value_fn_input_args)
        throw Error(Code::kInvalidArgument,
                    "transform '" + plan_.transforms[inputs.transform].first +
                        "': multi_value_fn needs multi_value_fn_input_args, which name the stored "
                        "leaves that it uses");
      for (std::size_t i = 0; i < inputs.patterns.size(); ++i)
        if (inputs.patterns[i].full_match(key))
          return PlannedRead{stored, ReadReason::kInput, 0, inputs.transform, i};
    }
    if (use != first_use_.end())
      return PlannedRead{stored, ReadReason::kTransform, use->second.second, 0, 0};
    return plan_own_key(stored);
  }

  // Plans a stored leaf that no transform requests by name, but whose key the target has.
  [[nodiscard]] std::optional<PlannedRead> plan_own_key(std::size_t stored) const {
    const auto found = outputs_.find(stored_keys_[stored]);
    if (found == outputs_.end()) return std::nullopt;
    const auto& matched = matched_[found->second];
    const bool fallback = std::any_of(matched.begin(), matched.end(), [&](const Matched& m) {
      return transform(m.transform).use_fallback;
    });
    const bool keeps_stored = unmentioned_ == UnmentionedKeys::kStored;
    if (fallback) {
      if (keeps_stored) return std::nullopt;
      return PlannedRead{stored, ReadReason::kFallback, found->second, 0, 0};
    }
    if (!keeps_stored) return std::nullopt;
    // If a transform gives the key another value, only a multi_value_fn sees the stored one.
    const bool seen = matched.empty() || !inputs_.empty();
    return seen ? std::optional(PlannedRead{stored, ReadReason::kUnmentioned, found->second, 0, 0})
                : std::nullopt;
  }

  [[nodiscard]] std::size_t stored_index(const std::string& key, const std::string& output,
                                         const char* asked_by) const {
    const auto found = stored_.find(key);
    if (found == stored_.end())
      throw Error(Code::kInvalidArgument, "the checkpoint has no '" + key + "', which " + asked_by +
                                              " needs to make '" + output + "'");
    return found->second;
  }

  void plan_steps(std::size_t i) {
    TransformOutput& output = plan_.outputs[i];
    if (matched_[i].empty()) {
      const auto found = stored_.find(output.key);
      if (unmentioned_ == UnmentionedKeys::kStored && found != stored_.end())
        output.steps.push_back({found->second, std::nullopt});
      return;
    }
    for (const Matched& matched : matched_[i]) {
      if (transform(matched.transform).multi_value_fn)
        output.steps.push_back({std::nullopt, matched.transform});
      else if (!transform(matched.transform).use_fallback)
        output.steps.push_back(
            {stored_index(matched.original, output.key, "a transform"), matched.transform});
      else if (unmentioned_ == UnmentionedKeys::kTarget)
        output.steps.push_back(
            {stored_index(output.key, output.key, "use_fallback"), matched.transform});
    }
  }

  TransformPlan& plan_;
  UnmentionedKeys unmentioned_;
  std::vector<std::string> stored_keys_;
  KeyIndex stored_, outputs_;
  std::vector<std::vector<Matched>> matched_;  // for each output, in the order of the transforms
  std::unordered_map<std::string, std::pair<std::size_t, std::size_t>>
      first_use_;               // original key -> first transform and output that use it
  std::vector<Inputs> inputs_;  // in the order of the transforms
};

}  // namespace

std::string transform_key(const KeyPath& path) {
  std::string key;
  for (const Key& part : path) {
    if (&part != path.data()) key += '/';
    key += part.text;
  }
  return key;
}

bool has_multi_value_fn(const Transforms& transforms) {
  return std::any_of(transforms.begin(), transforms.end(),
                     [](const auto& t) { return static_cast<bool>(t.second.multi_value_fn); });
}

TransformPlan plan_transforms(std::vector<KeyPath> stored, const Tree& target,
                              Transforms transforms, UnmentionedKeys unmentioned) {
  TransformPlan plan;
  plan.transforms = std::move(transforms);
  plan.stored = std::move(stored);
  for (TreeEntry& entry : flatten(target, DictOrder::kSorted)) {
    if (std::holds_alternative<EmptyNode>(entry.value.value())) continue;
    std::string key = transform_key(entry.path);
    plan.outputs.push_back({std::move(entry.path), std::move(key), {}});
  }
  Planner(plan, unmentioned).plan();
  return plan;
}

}  // namespace cairn::inline v0
