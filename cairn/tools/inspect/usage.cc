// usage.cc -- sums parameters and bytes by module and by element type.
#include <cairn/inspect.h>

#include <cairn/tools/report/capped_sum.h>
#include <cairn/tools/report/json_text.h>
#include <cairn/tools/report/module_names.h>

#include <algorithm>
#include <array>
#include <map>
#include <tuple>

namespace cairn::inline v0 {
namespace {

constexpr std::size_t kMostLevels = 64;  // a name from a file may have any number of parts

// A module name of a state that an optimizer keeps beside the parameters.
constexpr std::array<std::string_view, 10> kOptimizerNames = {
    "opt_state",       "optimizer", "optimizer_state", "optimizer_states", "opt", "mu",
    ".OPTIMIZER_SLOT", "nu",        "exp_avg",         "exp_avg_sq"};

bool is_optimizer(const std::vector<std::string>& parts) {
  return std::any_of(parts.begin(), parts.end(), [](const std::string& part) {
    return std::find(kOptimizerNames.begin(), kOptimizerNames.end(), part) != kOptimizerNames.end();
  });
}

std::uint64_t elements_of(const TensorInfo& t) {
  return t.is_array() && t.error.empty() ? static_cast<std::uint64_t>(element_count(t.shape)) : 0;
}

void add(UsageCounts& counts, const TensorInfo& t) {
  ++counts.leaves;
  add_capped(counts.elements, elements_of(t));
  add_capped(counts.nbytes, t.nbytes);
  add_capped(counts.stored_nbytes, t.stored_nbytes);
}

// The largest first; equal ones by name.
template <class Named>
void sort_by_size(std::vector<Named>& all) {
  std::sort(all.begin(), all.end(), [](const Named& a, const Named& b) {
    return std::tuple(b.counts.nbytes, b.counts.stored_nbytes, std::string_view(a.name)) <
           std::tuple(a.counts.nbytes, a.counts.stored_nbytes, std::string_view(b.name));
  });
}

// A module while leaves are added.
struct Building {
  UsageCounts counts;
  std::map<std::string, Building, std::less<>> children;
};

UsageNode finished(std::string name, const Building& building) {
  UsageNode node{std::move(name), building.counts, {}};
  for (const auto& [child, below] : building.children)
    node.children.push_back(finished(child, below));
  sort_by_size(node.children);
  return node;
}

Json counts_json(const std::string& name, const UsageCounts& c, JsonObject more = {}) {
  JsonObject out{{"name", text_json(name)},
                 {"leaves", c.leaves},
                 {"elements", c.elements},
                 {"nbytes", c.nbytes},
                 {"stored_nbytes", c.stored_nbytes}};
  for (auto& member : more) out.push_back(std::move(member));
  return out;
}

Json node_json(const UsageNode& node) {
  JsonArray children;
  for (const auto& child : node.children) children.push_back(node_json(child));
  JsonObject more;
  more.emplace_back("children", std::move(children));
  return counts_json(node.name, node.counts, std::move(more));
}

}  // namespace

Usage usage(const Checkpoint& checkpoint, std::span<const std::size_t> indices, std::size_t depth) {
  Usage out;
  Building root;
  std::map<std::string, UsageCounts, std::less<>> dtypes;
  for (const std::size_t i : indices) {
    const TensorInfo& t = checkpoint.tensors()[i];
    const auto parts = module_names(t);
    if (!t.error.empty()) ++out.unreadable;
    add(is_optimizer(parts) ? out.optimizer : out.parameters, t);
    if (t.is_array() && t.error.empty()) add(dtypes[t.dtype_name], t);
    Building* at = &root;
    add(at->counts, t);
    for (std::size_t d = 0; d < std::min({depth, parts.size(), kMostLevels}); ++d) {
      at = &at->children[parts[d]];
      add(at->counts, t);
    }
  }
  out.total = finished("", root);
  for (const auto& [name, counts] : dtypes) out.dtypes.push_back({name, counts, {}});
  sort_by_size(out.dtypes);
  return out;
}

std::string usage_json(const Usage& usage) {
  JsonArray dtypes;
  for (const auto& dtype : usage.dtypes) dtypes.push_back(counts_json(dtype.name, dtype.counts));
  const Json out = JsonObject{{"parameters", counts_json("parameters", usage.parameters)},
                              {"optimizer", counts_json("optimizer", usage.optimizer)},
                              {"unreadable", usage.unreadable},
                              {"dtypes", std::move(dtypes)},
                              {"modules", node_json(usage.total)}};
  return to_text(out, JsonStyle::kPretty) + "\n";
}

}  // namespace cairn::inline v0
