#include <cairn/tools/model_map/map_items.h>

#include <cairn/base/errors.h>
#include <cairn/inspect.h>

#include <fmt/format.h>

#include <algorithm>

namespace cairn::inline v0 {
namespace {

constexpr std::int64_t kMostItems = 1'000'000;

std::int64_t needed_integer(const std::optional<Expression>& expression, const Scope& scope,
                            std::string_view what) {
  const auto value = expression ? integer_value(*expression, scope) : std::nullopt;
  if (!value)
    invalid_argument(fmt::format("{} is not known{}", what,
                                 expression ? " ('" + expression->text() + "' is null)" : ""));
  return *value;
}

double number_value(const std::optional<Expression>& expression, const Scope& scope,
                    double otherwise) {
  if (!expression) return otherwise;
  const Json value = expression->evaluate(scope);
  const auto number = value.as_double();
  if (!number)
    invalid_argument(
        fmt::format("'{}' is {}, not a number", expression->text(), shown_value(value)));
  return *number;
}

class StepRunner {
 public:
  StepRunner(const MapStep& step, const StepContext& context) : step_(step), context_(context) {}

  void run(std::vector<MapItem>& items) {
    switch (step_.kind) {
      case MapStepKind::kStack:
        return step_.axes.empty() ? each_item(items, [&](auto& item) { stack_list(item); })
                                  : stack_variables(items);
      case MapStepKind::kUnstack:
        return step_.axes.empty() ? each_item(items, [&](auto& item) { unstack_list(item); })
                                  : unstack_variables(items);
      case MapStepKind::kConcatenate:
        return each_item(items, [&](auto& item) { concatenate(item); });
      case MapStepKind::kSplit:
        return each_item(items, [&](auto& item) { split(item); });
      case MapStepKind::kCopy:
        return step_.axes.empty() ? each_item(items, [&](auto& item) { copy_list(item); })
                                  : copy_variables(items);
      case MapStepKind::kSame:
        return step_.axes.empty() ? each_item(items, [&](auto& item) { unite_list(item); })
                                  : unite_variables(items);
      default:
        return each_item(items, [&](auto& item) {
          for (LazyPtr& array : item.arrays) array = changed(std::move(array));
        });
    }
  }

 private:
  Scope& scope() const { return context_.scope; }

  template <class Work>
  void each_item(std::vector<MapItem>& items, const Work& work) {
    for (MapItem& item : items) {
      scope().set_indices(item.indices);
      naming_leaf(item, [&] { work(item); });
    }
  }

  // Adds the leaf of the source to errors.
  template <class Work>
  auto naming_leaf(const MapItem& item, const Work& work) const {
    return with_context([&] { return printable_text(context_.leaves.keys()[item.source]); }, work);
  }

  LazyPtr changed(LazyPtr array) {
    switch (step_.kind) {
      case MapStepKind::kAffine: {
        const AffineFunction function{number_value(step_.scale, scope(), 1),
                                      number_value(step_.offset, scope(), 0), step_.inverse};
        return lazy_affine(std::move(array), function, counts());
      }
      case MapStepKind::kResize:
        return resized(std::move(array));
      case MapStepKind::kCast:
        if (!step_.to_type)
          invalid_argument("'cast' cannot be inverted; give the type of both sides: 'to', 'back'");
        return lazy_cast(std::move(array), *step_.to_type);
      default:
        return rearranged(array);
    }
  }

  // An error says which names of parts have no value.
  [[nodiscard]] LazyPtr rearranged(const LazyPtr& array) const {
    std::string names;
    for (const std::string& name : step_.rearrangement.names)
      if (const Json* value = scope().find(name); value != nullptr && value->is_null())
        names += (names.empty() ? "" : ", ") + name;
    const auto rearrange = [&] {
      return lazy_rearrange(array, step_.rearrangement, known_extents());
    };
    if (names.empty()) return rearrange();
    return with_context([&] { return "without a config.json, or a value for " + names; },
                        rearrange);
  }

  // The members of the step, else values of the same name.
  [[nodiscard]] std::vector<std::optional<std::int64_t>> known_extents() const {
    std::vector<std::optional<std::int64_t>> known;
    for (const std::string& name : step_.rearrangement.names) {
      const auto own =
          std::ranges::find(step_.extents, name, [](const auto& e) { return e.first; });
      if (own != step_.extents.end())
        known.push_back(integer_value(own->second, scope()));
      else if (const Json* value = scope().find(name); value != nullptr && value->as_int64())
        known.push_back(value->as_int64());
      else
        known.emplace_back();
    }
    return known;
  }

  LazyPtr resized(LazyPtr array) const {
    const std::size_t axis =
        axis_index(needed_integer(step_.axis, scope(), "'axis'"), array->shape().size());
    const std::int64_t extent = array->shape()[axis];
    const auto from = step_.from ? integer_value(*step_.from, scope()) : std::nullopt;
    if (from && *from != extent)
      invalid_argument(fmt::format("axis {} has {} elements, expected {} ('{}')", axis, extent,
                                   *from, step_.from->text()));
    const auto to = step_.to ? integer_value(*step_.to, scope()) : std::nullopt;
    if (!to) return array;
    const bool any_values = step_.trim && is_true(step_.trim->evaluate(scope()));
    return lazy_resize(std::move(array), axis, *to, any_values);
  }

  std::shared_ptr<AffineCounts> counts() {
    const MapRule& rule = context_.rule;
    if (context_.scaled.empty() || context_.scaled.back().where != rule.where)
      context_.scaled.push_back(
          {rule.where, rule.names[0][0].text(), std::make_shared<AffineCounts>()});
    return context_.scaled.back().counts;
  }

  // ---- lists of names ----

  static void take_one(const MapItem& item) {
    if (item.arrays.size() != 1)
      invalid_argument(fmt::format("expected one array, not {}", item.arrays.size()));
  }
  void stack_list(MapItem& item) const {
    const std::int64_t axis = needed_integer(step_.axis, scope(), "the axis");
    const std::size_t at = axis_index(axis, item.arrays.at(0)->shape().size() + 1);
    item.arrays = {lazy_stack(std::move(item.arrays), at)};
  }
  void unstack_list(MapItem& item) const {
    take_one(item);
    const LazyPtr array = item.arrays[0];
    const std::size_t axis =
        axis_index(needed_integer(step_.axis, scope(), "the axis"), array->shape().size());
    const auto names = static_cast<std::int64_t>(context_.names);
    if (array->shape()[axis] != names)
      invalid_argument(
          fmt::format("axis {} has {} elements for {} names", axis, array->shape()[axis], names));
    item.arrays.clear();
    for (std::int64_t i = 0; i < names; ++i) item.arrays.push_back(lazy_element(array, axis, i));
  }
  [[nodiscard]] std::vector<std::int64_t> sizes() const {
    std::vector<std::int64_t> found;
    if (step_.sizes)
      for (const Expression& size : *step_.sizes)
        found.push_back(needed_integer(size, scope(), "a size"));
    return found;
  }
  void concatenate(MapItem& item) const {
    const std::size_t axis = axis_index(needed_integer(step_.axis, scope(), "the axis"),
                                        item.arrays.at(0)->shape().size());
    const std::vector<std::int64_t> expected = sizes();
    if (!expected.empty() && expected.size() != item.arrays.size())
      invalid_argument(fmt::format("{} sizes for {} arrays", expected.size(), item.arrays.size()));
    for (std::size_t i = 0; i < expected.size(); ++i)
      if (item.arrays[i]->shape().at(axis) != expected[i])
        invalid_argument(fmt::format("array {} has {} elements along axis {}, expected {}", i,
                                     item.arrays[i]->shape()[axis], axis, expected[i]));
    item.arrays = {lazy_concatenate(std::move(item.arrays), axis)};
  }
  void split(MapItem& item) const {
    take_one(item);
    const LazyPtr array = item.arrays[0];
    const std::size_t axis =
        axis_index(needed_integer(step_.axis, scope(), "the axis"), array->shape().size());
    item.arrays = lazy_split(array, axis, sizes(), context_.names);
  }
  void copy_list(MapItem& item) const {
    take_one(item);
    item.arrays.assign(context_.names, LazyPtr(item.arrays[0]));
  }
  static void unite_list(MapItem& item) { item.arrays = {lazy_same(std::move(item.arrays))}; }

  // ---- loop variables ----

  using Group = std::map<std::int64_t, MapItem>;

  // Items that differ in nothing but the index of `variable`, by that index: all from 0 on.
  std::vector<std::pair<Indices, Group>> grouped(std::vector<MapItem>& items,
                                                 const std::string& variable) const {
    std::map<std::pair<Indices, Texts>, Group> groups;
    std::vector<std::pair<Indices, Texts>> order;
    for (MapItem& item : items) {
      const auto index = item.indices.find(variable);
      if (index == item.indices.end())
        invalid_argument(fmt::format("the names that it takes have no '{}'", variable));
      const std::int64_t at = index->second;
      Indices others = item.indices;
      others.erase(variable);
      const std::pair key(std::move(others), item.texts);
      if (!groups.contains(key)) order.push_back(key);
      groups[key].emplace(at, std::move(item));
    }
    std::vector<std::pair<Indices, Group>> out;
    for (const auto& key : order) {
      Group& group = groups[key];
      if (group.rbegin()->first + 1 != static_cast<std::int64_t>(group.size()) ||
          group.begin()->first != 0)
        invalid_argument(fmt::format("{} of {} arrays for '{}'; some are missing", group.size(),
                                     group.rbegin()->first + 1, variable));
      out.emplace_back(key.first, std::move(group));
    }
    return out;
  }

  // Replaces each group of items by one, whose arrays `join` makes of theirs.
  template <class Join>
  void join_variable(std::vector<MapItem>& items, const std::string& variable, const Join& join) {
    std::vector<MapItem> out;
    for (auto& [indices, group] : grouped(items, variable)) {
      MapItem joined = group.begin()->second;
      joined.indices = indices;
      scope().set_indices(indices);
      for (std::size_t n = 0; n < joined.arrays.size(); ++n) {
        std::vector<LazyPtr> arrays;
        for (const auto& entry : group) arrays.push_back(entry.second.arrays.at(n));
        joined.arrays[n] = naming_leaf(joined, [&] { return join(std::move(arrays)); });
      }
      out.push_back(std::move(joined));
    }
    items = std::move(out);
  }

  // Replaces each item by one for each index of a new variable.
  template <class Part>
  void add_variable(std::vector<MapItem>& items, const std::string& variable, const Part& part,
                    const std::function<std::int64_t(const MapItem&)>& extent) {
    std::vector<MapItem> out;
    for (const MapItem& item : items) {
      if (item.indices.contains(variable))
        invalid_argument(fmt::format("'{}' is a loop variable of both sides", variable));
      scope().set_indices(item.indices);
      const std::int64_t count = naming_leaf(item, [&] { return extent(item); });
      if (count > kMostItems - static_cast<std::int64_t>(out.size()))
        invalid_argument(fmt::format("more than {} arrays", kMostItems));
      for (std::int64_t i = 0; i < count; ++i) {
        MapItem& made = out.emplace_back(item);
        made.indices[variable] = i;
        for (LazyPtr& array : made.arrays) array = part(array, i);
      }
    }
    items = std::move(out);
  }

  // The variables with their axes in the stacked array of rank `rank`, the first axis first.
  [[nodiscard]] std::vector<std::pair<std::size_t, std::string>> sorted_axes(
      std::size_t rank) const {
    std::vector<std::pair<std::size_t, std::string>> axes;
    for (const auto& [variable, axis] : step_.axes)
      axes.emplace_back(
          axis_index(needed_integer(axis, scope(), "the axis of '" + variable + "'"), rank),
          variable);
    std::sort(axes.begin(), axes.end());
    for (std::size_t i = 1; i < axes.size(); ++i)
      if (axes[i].first == axes[i - 1].first)
        invalid_argument(
            fmt::format("'{}' and '{}' have one axis", axes[i - 1].second, axes[i].second));
    return axes;
  }

  void stack_variables(std::vector<MapItem>& items) {
    if (items.empty()) return;
    scope().set_indices({});
    const std::size_t rank = items[0].arrays.at(0)->shape().size() + step_.axes.size();
    for (const auto& [axis, variable] : sorted_axes(rank))
      join_variable(items, variable, [&, at = axis](std::vector<LazyPtr> arrays) {
        return lazy_stack(std::move(arrays), at);
      });
  }
  void unstack_variables(std::vector<MapItem>& items) {
    if (items.empty()) return;
    scope().set_indices({});
    auto axes = sorted_axes(items[0].arrays.at(0)->shape().size());
    std::reverse(axes.begin(), axes.end());
    for (const auto& [axis, variable] : axes) {
      const auto extent = [&, at = axis, &name = variable](const MapItem& item) {
        const std::int64_t count = item.arrays.at(0)->shape().at(at);
        const auto expected = count_of(name, context_.counts, scope());
        if (expected && *expected != count)
          invalid_argument(
              fmt::format("axis {} has {} elements, expected {} = {}", at, count, name, *expected));
        return count;
      };
      add_variable(
          items, variable,
          [at = axis](const LazyPtr& array, std::int64_t i) { return lazy_element(array, at, i); },
          extent);
    }
  }
  void copy_variables(std::vector<MapItem>& items) {
    for (const auto& entry : step_.axes) {
      const std::string& variable = entry.first;
      add_variable(
          items, variable, [](const LazyPtr& array, std::int64_t /*i*/) { return array; },
          [&](const MapItem& /*item*/) {
            const auto count = count_of(variable, context_.counts, scope());
            if (!count)
              invalid_argument(
                  fmt::format("the count of '{}' is not known; give it with 'for'", variable));
            return *count;
          });
    }
  }
  void unite_variables(std::vector<MapItem>& items) {
    for (const auto& entry : step_.axes)
      join_variable(items, entry.first,
                    [](std::vector<LazyPtr> arrays) { return lazy_same(std::move(arrays)); });
  }

  const MapStep& step_;
  const StepContext& context_;
};

}  // namespace

std::optional<std::int64_t> integer_value(const Expression& expression, const Scope& scope) {
  const Json value = expression.evaluate(scope);
  if (value.is_null()) return std::nullopt;
  const auto integer = value.as_int64(true);
  if (!integer)
    invalid_argument(
        fmt::format("'{}' is {}, not an integer", expression.text(), shown_value(value)));
  return integer;
}

std::optional<std::int64_t> count_of(const std::string& variable, const NamedExpressions& counts,
                                     const Scope& scope) {
  const auto found = std::ranges::find(counts, variable, [](const auto& c) { return c.first; });
  if (found == counts.end()) return std::nullopt;
  const auto count = integer_value(found->second, scope);
  if (count && (*count < 0 || *count > kMostItems))
    invalid_argument(fmt::format("{} = {} is not a count", variable, *count));
  return count;
}

void apply_step(const MapStep& step, std::vector<MapItem>& items, const StepContext& context) {
  // The rule is named already.
  with_context([&] { return step.where.substr(step.where.find("/do")); },
               [&] {
                 context.scope.set_indices({});
                 if (step.condition && !is_true(step.condition->evaluate(context.scope))) return;
                 StepRunner(step, context).run(items);
               });
}

}  // namespace cairn::inline v0
