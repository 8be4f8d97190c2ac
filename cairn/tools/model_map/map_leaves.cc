// map_leaves.cc -- finds the leaves of each rule, takes their arrays through its steps, and names
// the results.
#include <cairn/tools/model_map/map_leaves.h>

#include <cairn/base/errors.h>
#include <cairn/inspect.h>
#include <cairn/tools/model_map/map_scope.h>
#include <cairn/tree/leaf_value.h>

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

namespace cairn::inline v0 {
namespace {

constexpr std::size_t kMostListed = 10;
constexpr std::int64_t kMostIndices = 1'000'000;

std::string list_text(const std::vector<std::string>& names) {
  std::string text;
  for (std::size_t i = 0; i < names.size() && i < kMostListed; ++i)
    text += (i == 0 ? "" : ", ") + printable_text(names[i]);
  if (names.size() > kMostListed) text += fmt::format(" and {} more", names.size() - kMostListed);
  return text;
}

std::string count_text(std::size_t n, std::string_view one, std::string_view many) {
  return fmt::format("{} {}", n, n == 1 ? one : many);
}

bool applies(const MapRule& rule, Scope& scope) {
  scope.set_indices({});
  return !rule.condition || with_context([&] { return rule.where + "/if"; },
                                         [&] { return is_true(rule.condition->evaluate(scope)); });
}

// The value of `flat`: false, true, or 'whole'.
KeySplit key_split(const Json& value) {
  if (const std::string* word = value.as_string(); word != nullptr) {
    if (*word == "whole") return KeySplit::kNowhere;
    invalid_argument(fmt::format("'{}' is not true, false or 'whole'", printable_text(*word)));
  }
  return is_true(value) ? KeySplit::kLastSlash : KeySplit::kEverySlash;
}

std::vector<NameTemplate> resolved(const std::vector<NameTemplate>& names, const Scope& scope) {
  std::vector<NameTemplate> out;
  out.reserve(names.size());
  for (const NameTemplate& name : names) out.push_back(name.resolved(scope));
  return out;
}

// The counts of a rule, in place of those of the map.
NamedExpressions counts_of(const MapRule& rule, const ModelMap& map) {
  NamedExpressions counts;
  for (const auto& entry : map.counts)
    if (std::ranges::find(rule.counts, entry.first, [](const auto& c) { return c.first; }) ==
        rule.counts.end())
      counts.push_back(entry);
  counts.insert(counts.end(), rule.counts.begin(), rule.counts.end());
  return counts;
}

class Mapper {
 public:
  Mapper(const MapInput& input, std::size_t from)
      : input_(input),
        from_(from),
        names_(input.leaves),
        scope_(names_),
        values_(set_map_values(input, from, scope_)),
        taken_(names_.keys().size()) {
    for (const auto& [side, expression] : input.map.flat)
      if (side == input.map.sides[1 - from])
        split_ = with_context([&, &s = side] { return "/flat/" + s; },
                              [&, &e = expression] { return key_split(e.evaluate(scope_)); });
  }

  RuleResult run() {
    const auto each = [&](auto work) {
      for (const MapRule& rule : input_.map.rules)
        if (applies(rule, scope_)) with_context([&] { return rule.where; }, [&] { work(rule); });
    };
    each([&](const MapRule& rule) {  // before the rule that takes the other leaf
      if (rule.kind == MapRuleKind::kSame) note_equal(rule);
    });
    each([&](const MapRule& rule) { apply(rule); });
    finish();
    return {.leaves = std::move(leaves_),
            .values = std::move(values_),
            .scaled = std::move(scaled_),
            .identity = ""};
  }

  // The number of leaves that a rule of the side they come from takes.
  std::size_t count_matches() {
    std::size_t n = 0;
    for (const MapRule& rule : input_.map.rules) {
      if (rule.kind != MapRuleKind::kConvert || !applies(rule, scope_)) continue;
      for (const NameTemplate& name : resolved(rule.names[from_], scope_))
        for (std::size_t i = 0; i < taken_.size(); ++i)
          if (!taken_[i] && name.match(names_.keys()[i])) {
            taken_[i] = true;
            ++n;
          }
    }
    return n;
  }

 private:
  // ---- leaves of the source ----

  void note_equal(const MapRule& rule) {
    for (const NameTemplate& name : resolved(rule.names[from_], scope_)) {
      const auto found = names_.find(name.expand(scope_, {}));
      if (!found) continue;
      const std::string other = rule.equal->resolved(scope_).expand(scope_, {});
      const auto equal = names_.find(other);
      if (!equal)
        invalid_argument(fmt::format("'{}' must equal '{}', which is missing",
                                     printable_text(names_.keys()[*found]), printable_text(other)));
      equal_[*equal].push_back(*found);
      taken_[*found] = true;
    }
  }

  [[nodiscard]] LazyPtr stored(std::size_t index) const {
    const TensorInfo& tensor = input_.source.tensors()[index];
    if (!tensor.is_array() || !tensor.error.empty()) return nullptr;
    return lazy_stored(input_.source, index);
  }
  [[nodiscard]] LazyPtr array_of(std::size_t index) const {
    LazyPtr array = stored(index);
    const auto equal = equal_.find(index);
    if (array == nullptr || equal == equal_.end()) return array;
    std::vector<LazyPtr> arrays = {array};
    for (const std::size_t other : equal->second)
      if (LazyPtr also = stored(other)) arrays.push_back(std::move(also));
    return lazy_same(std::move(arrays));
  }

  // ---- rules ----

  void apply(const MapRule& rule) {
    switch (rule.kind) {
      case MapRuleKind::kSame:
        return;
      case MapRuleKind::kDrop:
        return drop(rule);
      case MapRuleKind::kFill:
        return rule.names[from_].empty() ? fill(rule) : drop(rule);
      case MapRuleKind::kConvert:
        return convert(rule);
    }
  }

  void drop(const MapRule& rule) {
    for (const NameTemplate& name : resolved(rule.names[from_], scope_))
      for (std::size_t i = 0; i < taken_.size(); ++i)
        if (!taken_[i] && name.match(names_.keys()[i])) taken_[i] = true;
  }

  void fill(const MapRule& rule) {
    scope_.set_indices({});
    const Json number = rule.fill->evaluate(scope_);
    if (!number.as_double()) invalid_argument("'fill' is not a number");
    Shape shape;
    for (const Expression& extent : rule.extents) {
      const auto value = integer_value(extent, scope_);
      if (!value || *value < 0)
        invalid_argument(fmt::format("the extent '{}' is not known", extent.text()));
      shape.push_back(*value);
    }
    (void)element_count(shape);
    const NamedExpressions counts = counts_of(rule, input_.map);
    for (const NameTemplate& name : resolved(rule.names[1 - from_], scope_)) {
      std::vector<Indices> all;
      enumerate(name.variables(scope_), counts, {name}, all);
      for (const Indices& indices : all) {
        scope_.set_indices(indices);
        add({.key = name.expand(scope_, {}),
             .source = TransformedLeaf::kNoSource,
             .array = lazy_fill(rule.dtype, shape, *number.as_double()),
             .computed = true,
             .mentioned = true});
      }
    }
  }

  void convert(const MapRule& rule) {
    const std::vector<NameTemplate> from = resolved(rule.names[from_], scope_);
    const std::vector<NameTemplate> to = resolved(rule.names[1 - from_], scope_);
    const NamedExpressions counts = counts_of(rule, input_.map);
    std::vector<MapItem> items = find_items(rule, from, counts);
    if (rule.steps.empty() && from.size() == 1 && to.size() == 1) return rename(items, to[0]);
    for (const MapItem& item : items)
      for (const LazyPtr& array : item.arrays)
        if (array == nullptr) refuse(item);
    const StepContext context{scope_, names_, counts, to.size(), rule, scaled_};
    if (from_ == 0)
      for (const MapStep& step : rule.steps) apply_step(step, items, context);
    else
      for (std::size_t i = rule.steps.size(); i-- > 0;)
        apply_step(inverted(rule.steps[i]), items, context);
    for (const MapItem& item : items) add_item(item, to);
  }

  [[noreturn]] void refuse(const MapItem& item) const {
    const TensorInfo& tensor = input_.source.tensors()[item.source];
    check_readable(tensor.name, tensor);
    invalid_argument(fmt::format("'{}' is not an array (kind: {})", printable_text(tensor.name),
                                 tensor.typestr));
  }

  // Whatever the leaf is, it stays as it is.
  void rename(const std::vector<MapItem>& items, const NameTemplate& to) {
    for (const MapItem& item : items) {
      scope_.set_indices(item.indices);
      add({.key = to.expand(scope_, item.texts),
           .source = item.source,
           .array = item.arrays[0],
           .computed = equal_.contains(item.source),
           .mentioned = true});
    }
  }

  void add_item(const MapItem& item, const std::vector<NameTemplate>& to) {
    if (item.arrays.size() != to.size())
      invalid_argument(fmt::format("{} for {}", count_text(item.arrays.size(), "array", "arrays"),
                                   count_text(to.size(), "name", "names")));
    scope_.set_indices(item.indices);
    for (std::size_t n = 0; n < to.size(); ++n)
      add({.key = to[n].expand(scope_, item.texts),
           .source = item.source,
           .array = item.arrays[n],
           .computed = true,
           .mentioned = true});
  }

  void add(TransformedLeaf leaf) {
    leaf.split = split_;
    if (!made_.insert(leaf.key).second)
      invalid_argument("two leaves would have the key '" + printable_text(leaf.key) + "'");
    leaves_.push_back(std::move(leaf));
  }

  // ---- the leaves that a rule takes ----

  std::vector<MapItem> find_items(const MapRule& rule, const std::vector<NameTemplate>& from,
                                  const NamedExpressions& counts) {
    const bool has_texts = std::ranges::any_of(
        from, [](const NameTemplate& name) { return !name.text_variables().empty(); });
    std::vector<std::pair<Indices, Texts>> all;
    bool is_empty = false;  // whether a count of 0 says that there is none
    if (has_texts) {
      for (std::size_t i = 0; i < taken_.size(); ++i)
        if (!taken_[i])
          if (auto found = from[0].solve(names_.keys()[i], scope_))
            all.push_back(*std::move(found));
    } else {
      scope_.set_indices({});
      std::vector<std::string> variables;
      for (const NameTemplate& name : from)
        for (std::string& variable : name.variables(scope_))
          if (std::ranges::find(variables, variable) == variables.end())
            variables.push_back(std::move(variable));
      std::vector<Indices> indices;
      is_empty = enumerate(variables, counts, from, indices);
      for (Indices& one : indices) all.emplace_back(std::move(one), Texts());
    }
    std::vector<MapItem> items;
    std::vector<std::string> missing;
    std::vector<std::size_t> found;
    for (auto& [indices, texts] : all) {
      MapItem item{std::move(indices), std::move(texts), {}, 0};
      scope_.set_indices(item.indices);
      for (const NameTemplate& name : from) {
        std::string key = name.expand(scope_, item.texts);
        const auto index = names_.find(key);
        if (!index || taken_[*index]) {
          missing.push_back(std::move(key));
          continue;
        }
        found.push_back(*index);
        if (item.arrays.empty()) item.source = *index;
        item.arrays.push_back(array_of(*index));
      }
      items.push_back(std::move(item));
    }
    return checked(rule, from, std::move(items), std::move(missing), found, is_empty);
  }

  // Takes the leaves, or notes what is missing.
  std::vector<MapItem> checked(const MapRule& rule, const std::vector<NameTemplate>& from,
                               std::vector<MapItem> items, std::vector<std::string> missing,
                               const std::vector<std::size_t>& found, bool is_empty) {
    scope_.set_indices({});
    const bool optional = rule.optional && is_true(rule.optional->evaluate(scope_));
    if (items.empty() && !optional && !is_empty) missing.push_back(from[0].text());
    if (found.empty() && optional) return {};
    for (const std::size_t index : found) taken_[index] = true;
    if (missing.empty()) return items;
    missing_.insert(missing_.end(), missing.begin(), missing.end());
    return {};
  }

  // Appends all indices of the variables. Returns true if a count that is given makes them none.
  bool enumerate(const std::vector<std::string>& variables, const NamedExpressions& counts,
                 const std::vector<NameTemplate>& names, std::vector<Indices>& out) {
    // Those with counts first, in their order. A count may use the variables before it.
    std::vector<std::string> order;
    scope_.set_indices({});
    for (const auto& entry : counts) {
      const auto count = try_call([&] { return count_of(entry.first, counts, scope_); });
      const bool is_null = count && !count.value();
      if (!is_null && std::ranges::find(variables, entry.first) != variables.end())
        order.push_back(entry.first);
    }
    for (const std::string& variable : variables)
      if (std::ranges::find(order, variable) == order.end()) order.push_back(variable);
    Indices indices;
    bool is_empty = false;
    enumerate_from(0, order, counts, names, indices, out, is_empty);
    scope_.set_indices({});
    return is_empty;
  }

  void enumerate_from(std::size_t at, const std::vector<std::string>& order,
                      const NamedExpressions& counts, const std::vector<NameTemplate>& names,
                      Indices& indices, std::vector<Indices>& out, bool& is_empty) {
    constexpr std::size_t kMostNames = 1'000'000;
    if (at == order.size()) {
      if (out.size() == kMostNames) invalid_argument(fmt::format("more than {} names", kMostNames));
      return out.push_back(indices);
    }
    scope_.set_indices(indices);
    auto count = count_of(order[at], counts, scope_);
    if (count && *count == 0) is_empty = true;
    if (!count) count = count_in_names(order[at], indices, names);
    for (std::int64_t i = 0; i < *count; ++i) {
      indices[order[at]] = i;
      enumerate_from(at + 1, order, counts, names, indices, out, is_empty);
    }
    indices.erase(order[at]);
  }

  // One more than the largest index of a variable in the names of the source, where the other
  // variables have these indices.
  std::int64_t count_in_names(const std::string& variable, const Indices& known,
                              const std::vector<NameTemplate>& names) {
    std::int64_t count = 0;
    for (const NameTemplate& whole : names) {
      scope_.set_indices(known);
      const NameTemplate name = whole.resolved(scope_);
      const auto variables = name.variables(scope_);
      if (std::ranges::find(variables, variable) == variables.end()) continue;
      for (const std::string& key : names_.keys())
        if (const auto found = name.solve(key, scope_))
          count = std::max(count, found->first.at(variable) + 1);
    }
    if (count > kMostIndices)
      invalid_argument(
          fmt::format("{} = {} in a name; at most {}", variable, count - 1, kMostIndices));
    return count;
  }

  // ---- the end ----

  void finish() {
    std::vector<std::string> surplus;
    for (std::size_t i = 0; i < taken_.size(); ++i) {
      const bool is_empty = input_.source.tensors()[i].kind == LeafKind::kEmpty;
      if (taken_[i] || (is_empty && input_.map.unmentioned != Unmentioned::kKeep)) continue;
      if (input_.map.unmentioned == Unmentioned::kError) surplus.push_back(names_.keys()[i]);
      if (input_.map.unmentioned == Unmentioned::kKeep)
        add({.key = names_.keys()[i],
             .source = i,
             .array = stored(i),
             .computed = false,
             .mentioned = false});
    }
    if (missing_.empty() && surplus.empty()) return;
    std::string text =
        fmt::format("the checkpoint does not have the names of side '{}'", input_.map.sides[from_]);
    if (!missing_.empty())
      text += fmt::format("; {} missing: {}", count_text(missing_.size(), "is", "are"),
                          list_text(missing_));
    if (!surplus.empty())
      text += fmt::format("; no rule takes {}: {}", surplus.size(), list_text(surplus));
    invalid_argument(text);
  }

  const MapInput& input_;
  std::size_t from_;
  const SourceLeaves& names_;
  Scope scope_;
  std::vector<TransformValue> values_;
  std::vector<bool> taken_;
  KeySplit split_ = KeySplit::kEverySlash;                 // of keys of the result
  std::map<std::size_t, std::vector<std::size_t>> equal_;  // leaves that must equal a leaf
  std::set<std::string> made_;
  std::vector<std::string> missing_;
  std::vector<TransformedLeaf> leaves_;
  std::vector<ScaledLeaves> scaled_;
};

}  // namespace

RuleResult map_leaves(const MapInput& input, std::size_t from) { return Mapper(input, from).run(); }

std::array<std::size_t, 2> leaves_of_sides(const MapInput& input) {
  return {Mapper(input, 0).count_matches(), Mapper(input, 1).count_matches()};
}

}  // namespace cairn::inline v0
