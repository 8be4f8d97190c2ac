// kept_types.cc -- compares the recorded types of containers with the leaves of a conversion.
#include <cairn/tools/convert/kept_types.h>

#include <cairn/tools/convert/target_format.h>
#include <cairn/tree/metadata/rich_types.h>

#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <utility>
#include <vector>

namespace cairn::inline v0 {
namespace {

// The numbers in the plan of an item's leaves; nullopt if the target does not keep the item as a
// tree of its own.
std::optional<std::vector<std::size_t>> leaves_of(const orbax::PytreeItem& item,
                                                  const ConvertPlan& plan, bool single) {
  if (plan.items) {
    const auto tree = plan.items->trees.find(item.item.name);
    if (tree == plan.items->trees.end()) return std::nullopt;
    return tree->second.leaves;
  }
  std::vector<std::size_t> all(single ? plan.indices.size() : 0);
  std::iota(all.begin(), all.end(), std::size_t{0});
  return all;
}

bool fits(const Tree& types, const std::vector<std::size_t>& leaves, const ConvertPlan& plan) {
  std::set<std::string> typed;
  for (const TreeEntry& entry : flatten(types)) typed.insert(path_text(entry.path));
  std::set<std::string> kept;
  for (const std::size_t number : leaves) kept.insert(path_text(plan.paths[number]));
  return typed == kept;
}

}  // namespace

void keep_types(const Checkpoint& source, ConvertPlan& plan) {
  const orbax::OrbaxCheckpoint* from = orbax_source(source);
  if (from == nullptr || !is_orbax_format(plan.report.format)) return;
  const auto items = from->opened_items();
  for (const orbax::PytreeItem& item : items) {
    if (item.metadata.rich_types.empty()) continue;
    const auto leaves = leaves_of(item, plan, items.size() == 1);
    if (!leaves) continue;
    auto types = try_call([&] { return parse_rich_types(item.metadata.rich_types); });
    if (types && fits(types.value(), *leaves, plan)) {
      plan.types.emplace(item.item.name, std::move(types).value());
      continue;
    }
    plan.report.left_out.emplace_back(
        "rich types" + (item.item.name.empty() ? "" : " of " + item.item.name),
        types ? "the record of tuples and named tuples fits only a tree with all leaves and their "
                "names"
              : types.error().message());
  }
}

std::string types_text(const Tree& types, std::span<const LeafMetadata> leaves) {
  std::map<std::string, const LeafMetadata*> by_path;
  for (const LeafMetadata& leaf : leaves) by_path.emplace(path_text(leaf.path), &leaf);
  return rich_types_text(
      types,
      [&](const KeyPath& path, const Tree& /*node*/) -> const LeafMetadata& {
        return *by_path.at(path_text(path));
      },
      leaves.size());
}

}  // namespace cairn::inline v0
