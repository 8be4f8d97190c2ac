#include <cairn/tools/model_map/scope.h>

#include <cairn/base/errors.h>
#include <cairn/tools/model_map/name_template.h>

#include <fmt/format.h>

#include <algorithm>

namespace cairn::inline v0 {

void Scope::set(const std::string& name, Json value) { values_[name] = std::move(value); }

void Scope::set_indices(const Indices& indices) {
  indices_.clear();
  for (const auto& [name, index] : indices) indices_[name] = index;
}

const Json* Scope::find(std::string_view name) const {
  if (const auto index = indices_.find(name); index != indices_.end()) return &index->second;
  const auto value = values_.find(name);
  return value == values_.end() ? nullptr : &value->second;
}

std::vector<std::string> Scope::all() const {
  std::vector<std::string> names;
  for (const auto* map : {&indices_, &values_})
    for (const auto& entry : *map) names.push_back(entry.first);
  return names;
}

Json Scope::call(std::string_view function, const std::vector<Json>& arguments) const {
  const bool takes_axis = function == "shape";
  if (function != "has" && function != "rank" && !takes_axis)
    invalid_argument(fmt::format("there is no function {}()", function));
  const std::string* name = arguments.empty() ? nullptr : arguments[0].as_string();
  if (name == nullptr || arguments.size() != (takes_axis ? 2U : 1U))
    invalid_argument(fmt::format("expected {}('NAME'{})", function, takes_axis ? ", AXIS" : ""));
  const NameTemplate pattern = NameTemplate(*name).resolved(*this);
  if (function == "has")
    return std::ranges::any_of(
        leaves_.keys(), [&](const std::string& key) { return pattern.match(key).has_value(); });
  const auto leaf = std::ranges::find_if(
      leaves_.keys(), [&](const std::string& key) { return pattern.match(key).has_value(); });
  if (leaf == leaves_.keys().end()) return {};
  const Shape& shape = leaves_.shape(static_cast<std::size_t>(leaf - leaves_.keys().begin()));
  const auto rank = static_cast<std::int64_t>(shape.size());
  if (!takes_axis) return rank;
  const auto axis = arguments[1].as_int64();
  if (!axis || *axis < -rank || *axis >= rank)
    invalid_argument(fmt::format("{} has no axis {}", *leaf, to_text(arguments[1])));
  return shape[static_cast<std::size_t>(*axis < 0 ? *axis + rank : *axis)];
}

}  // namespace cairn::inline v0
