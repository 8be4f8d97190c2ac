// modules.cc -- numbers modules, and finds the module of a leaf.
#include <cairn/tools/page/modules.h>

#include <cairn/tools/page/page_text.h>
#include <cairn/tools/report/module_names.h>

namespace cairn::inline v0::page {
namespace {

constexpr std::size_t kMostModules = 4000;
constexpr std::size_t kMostLevels = 64;  // as usage()

// The end of a name that only one leaf has is the leaf itself.
bool is_module(const UsageNode& node) { return !node.children.empty() || node.counts.leaves > 1; }

// Counts the modules at each depth below `node`.
void count_levels(const UsageNode& node, std::size_t depth, std::vector<std::size_t>& counts) {
  for (const UsageNode& child : node.children) {
    if (!is_module(child)) continue;
    if (counts.size() <= depth) counts.resize(depth + 1);
    ++counts[depth];
    count_levels(child, depth + 1, counts);
  }
}

}  // namespace

ModuleList::ModuleList(const Usage& usage) {
  std::vector<std::size_t> counts;
  count_levels(usage.total, 0, counts);
  std::size_t levels = 0;
  std::size_t sum = 1;
  while (levels < counts.size() && levels < kMostLevels && sum + counts[levels] <= kMostModules)
    sum += counts[levels++];
  add(usage.total, 0, levels);
}

void ModuleList::add(const UsageNode& node, std::size_t parent, std::size_t levels) {
  const std::size_t number = nodes_.size();
  nodes_.push_back(&node);
  parents_.push_back(parent);
  if (number > 0) children_.emplace(std::pair(parent, std::string_view(node.name)), number);
  if (levels == 0) return;
  for (const UsageNode& child : node.children)
    if (is_module(child)) add(child, number, levels - 1);
}

std::size_t ModuleList::module_of(const TensorInfo& leaf) const {
  std::size_t module = 0;
  for (const std::string& name : module_names(leaf)) {
    const auto child = children_.find({module, name});
    if (child == children_.end()) break;
    module = child->second;
  }
  return module;
}

Json ModuleList::json() const {
  JsonArray names, parents, bytes, leaves;
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    names.push_back(shown_text(nodes_[i]->name));
    parents.emplace_back(std::uint64_t{parents_[i]});
    bytes.emplace_back(nodes_[i]->counts.nbytes);
    leaves.emplace_back(nodes_[i]->counts.leaves);
  }
  return JsonObject{{"name", std::move(names)},
                    {"parent", std::move(parents)},
                    {"bytes", std::move(bytes)},
                    {"leaves", std::move(leaves)}};
}

}  // namespace cairn::inline v0::page
