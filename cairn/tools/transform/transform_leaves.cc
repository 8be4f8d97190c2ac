// transform_leaves.cc -- applies rules one after another; each sees the results of the rules before
// it.
#include <cairn/tools/transform/transform_leaves.h>

#include <cairn/base/errors.h>
#include <cairn/base/utf8.h>

#include <cairn/convert.h>
#include <cairn/diff.h>
#include <cairn/inspect.h>
#include <cairn/tree/leaf_value.h>
#include <cairn/tree/transform/regex.h>
#include <cairn/tree/transform/transform_keys.h>

#include <charconv>
#include <map>
#include <unordered_map>

namespace cairn::inline v0 {
namespace {

// The key that expressions match: one that is not UTF-8 has its escaped form.
std::string shown_key(const std::string& key) {
  return valid_utf8(key) ? key : printable_text(key);
}

class Leaves {
 public:
  explicit Leaves(const Checkpoint& source) : source_(source) {
    for (std::size_t i = 0; i < source.tensors().size(); ++i) {
      const TensorInfo& tensor = source.tensors()[i];
      if (tensor.item) invalid_argument("the checkpoint has several items; choose one with --item");
      const bool readable = tensor.is_array() && tensor.error.empty();
      add({transform_key(tensor.path), i, readable ? lazy_stored(source, i) : nullptr, false,
           false});
    }
  }

  void apply(const TransformRule& rule) {
    Regex regex(rule.pattern);
    std::vector<std::pair<std::string, Regex::Groups>> matches;
    std::vector<std::string> keys;
    for (const auto& leaf : leaves_)
      if (leaf) keys.push_back(shown_key(leaf->key));
    for (const std::string& key : keys)
      if (auto groups = regex.full_match(key)) matches.emplace_back(key, std::move(*groups));
    if (matches.empty())
      invalid_argument("'" + rule.pattern + "' matches no key, such as '" +
                       (keys.empty() ? "" : keys[0]) + "'");
    for (auto& [key, groups] : matches) {
      const auto expanded = [&, &g = groups](const std::string& text) {
        return regex.expand(text, g);
      };
      with_context([&, &k = key] { return "'" + printable_text(k) + "'"; },
                   [&, &k = key] { apply_one(rule, k, expanded); });
    }
    if (rule.kind == RuleKind::kStack) finish_stacks(rule);
  }

  std::vector<TransformedLeaf> take(bool keep_unmentioned) {
    std::vector<TransformedLeaf> out;
    for (auto& leaf : leaves_)
      if (leaf && (keep_unmentioned || leaf->mentioned)) out.push_back(std::move(*leaf));
    return out;
  }

 private:
  using Expand = std::function<std::string(const std::string&)>;

  void add(TransformedLeaf leaf) {
    if (!places_.emplace(shown_key(leaf.key), leaves_.size()).second)
      invalid_argument("two leaves would have the key '" + printable_text(leaf.key) + "'");
    leaves_.emplace_back(std::move(leaf));
  }
  TransformedLeaf& at(const std::string& key) {
    const auto found = places_.find(key);
    if (found == places_.end())
      invalid_argument("there is no leaf '" + printable_text(key) +
                       "', or an earlier rule took it");
    return *leaves_[found->second];
  }
  TransformedLeaf take(const std::string& key) {
    TransformedLeaf leaf = std::move(at(key));
    const auto place = places_.extract(key);
    leaves_[place.mapped()].reset();
    return leaf;
  }
  // The array of a leaf that a rule operates on. Throws if the leaf is not a readable array.
  const LazyPtr& array_of(const TransformedLeaf& leaf) const {
    const TensorInfo& tensor = source_.tensors()[leaf.source];
    if (!leaf.array) check_readable(tensor.name, tensor);
    if (!leaf.array)
      invalid_argument("'" + printable_text(leaf.key) +
                       "' is not an array (kind: " + tensor.typestr + ")");
    if (leaf.array->dtype() == DType::kOpaque)
      invalid_argument("'" + printable_text(leaf.key) + "' has elements of type " +
                       tensor.dtype_name + ", which can only be moved as they are");
    return leaf.array;
  }
  void add_made(const std::string& key, std::size_t source, LazyPtr array) {
    add({key, source, std::move(array), true, true});
  }

  void apply_one(const TransformRule& rule, const std::string& key, const Expand& expanded) {
    switch (rule.kind) {
      case RuleKind::kKeep:
        at(key).mentioned = true;
        return;
      case RuleKind::kDrop:
        take(key);
        return;
      case RuleKind::kRename: {
        TransformedLeaf leaf = take(key);
        leaf.key = expanded(rule.to[0]);
        leaf.mentioned = true;
        return add(std::move(leaf));
      }
      case RuleKind::kCast:
        return replace(key, lazy_cast(array_of(at(key)), rule.dtype));
      case RuleKind::kTranspose:
        return replace(key, transposed(rule, array_of(at(key))));
      case RuleKind::kStack:
        return collect(rule, key, expanded);
      case RuleKind::kUnstack:
        return unstack(rule, key, expanded);
      case RuleKind::kConcatenate:
        return concatenate(rule, key, expanded);
      case RuleKind::kSplit:
        return split(rule, key, expanded);
      case RuleKind::kAddLowRank:
        return add_low_rank(rule, key, expanded);
    }
  }

  void replace(const std::string& key, LazyPtr array) {
    TransformedLeaf& leaf = at(key);
    leaf.computed = leaf.computed || array != leaf.array;
    leaf.array = std::move(array);
    leaf.mentioned = true;
  }

  static LazyPtr transposed(const TransformRule& rule, const LazyPtr& array) {
    const std::size_t rank = array->shape().size();
    std::vector<std::size_t> axes;
    if (rule.axes)
      for (const std::int64_t axis : *rule.axes) axes.push_back(axis_index(axis, rank));
    else
      for (std::size_t d = rank; d-- > 0;) axes.push_back(d);
    return lazy_transpose(array, std::move(axes));
  }

  // Sorts layers by their numbers, which the group named "index" matches.
  void collect(const TransformRule& rule, const std::string& key, const Expand& expanded) {
    const std::string text = expanded("\\g<index>");
    std::uint64_t index = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), index);
    if (error != std::errc() || end != text.data() + text.size())
      invalid_argument("the group named index matches '" + text + "', which is not a number");
    array_of(at(key));
    if (!stacks_[expanded(rule.to[0])].emplace(index, take(key)).second)
      invalid_argument("two arrays have the index " + text);
  }
  void finish_stacks(const TransformRule& rule) {
    for (auto& [to, layers] : std::exchange(stacks_, {})) {
      if (layers.rbegin()->first != layers.size() - 1)
        invalid_argument("'" + printable_text(to) + "' needs all indices, but has " +
                         std::to_string(layers.size()) + " arrays for indices up to " +
                         std::to_string(layers.rbegin()->first) + "; some are missing");
      std::vector<LazyPtr> arrays;
      for (const auto& layer : layers) arrays.push_back(layer.second.array);
      const std::size_t axis = axis_index(rule.axis, arrays[0]->shape().size() + 1);
      add_made(to, layers.begin()->second.source, lazy_stack(std::move(arrays), axis));
    }
  }

  void unstack(const TransformRule& rule, const std::string& key, const Expand& expanded) {
    constexpr std::string_view kIndexMark = "{index}";
    const std::string to = expanded(rule.to[0]);
    const std::size_t at_index = to.find(kIndexMark);
    if (at_index == std::string::npos)
      invalid_argument("'to' must contain {index}, which stands for the number of the layer");
    array_of(at(key));
    const TransformedLeaf leaf = take(key);
    const std::size_t axis = axis_index(rule.axis, leaf.array->shape().size());
    constexpr std::int64_t kMostArrays = 1'000'000;
    const std::int64_t count = leaf.array->shape()[axis];
    if (count > kMostArrays)
      invalid_argument("the axis has " + std::to_string(count) +
                       " elements; one axis makes at most " + std::to_string(kMostArrays) +
                       " arrays");
    for (std::int64_t i = 0; i < count; ++i)
      add_made(std::string(to).replace(at_index, kIndexMark.size(), std::to_string(i)), leaf.source,
               lazy_element(leaf.array, axis, i));
  }

  void concatenate(const TransformRule& rule, const std::string& key, const Expand& expanded) {
    array_of(at(key));
    const TransformedLeaf first = take(key);
    std::vector<LazyPtr> arrays = {first.array};
    for (const std::string& other : rule.with) {
      arrays.push_back(array_of(at(expanded(other))));
      take(expanded(other));
    }
    const std::size_t axis = axis_index(rule.axis, first.array->shape().size());
    add_made(expanded(rule.to[0]), first.source, lazy_concatenate(std::move(arrays), axis));
  }

  void split(const TransformRule& rule, const std::string& key, const Expand& expanded) {
    array_of(at(key));
    const TransformedLeaf leaf = take(key);
    const std::size_t axis = axis_index(rule.axis, leaf.array->shape().size());
    const std::vector<LazyPtr> parts = lazy_split(leaf.array, axis, rule.sizes, rule.to.size());
    for (std::size_t i = 0; i < parts.size(); ++i)
      add_made(expanded(rule.to[i]), leaf.source, parts[i]);
  }

  void add_low_rank(const TransformRule& rule, const std::string& key, const Expand& expanded) {
    const std::string a = expanded(rule.with[0]);
    const std::string b = expanded(rule.with[1]);
    replace(key,
            lazy_add_low_rank(array_of(at(key)), array_of(at(a)), array_of(at(b)), rule.scale));
    take(a);
    take(b);
  }

  const Checkpoint& source_;
  std::vector<std::optional<TransformedLeaf>> leaves_;
  std::unordered_map<std::string, std::size_t> places_;  // by shown_key
  // of the current rule
  std::map<std::string, std::map<std::uint64_t, TransformedLeaf>> stacks_;
};

}  // namespace

std::vector<TransformedLeaf> transform_leaves(const Checkpoint& source,
                                              const TransformRules& rules) {
  Leaves leaves(source);
  for (const TransformRule& rule : rules.rules)
    with_context([&] { return rule.where; }, [&] { leaves.apply(rule); });
  return leaves.take(rules.keep_unmentioned);
}

}  // namespace cairn::inline v0
