// kept_types.cc -- compares the recorded types of containers with the leaves of a conversion.
#include <cairn/tools/convert/kept_types.h>

#include <cairn/tools/convert/target_format.h>
#include <cairn/tree/metadata/key_types.h>
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

std::string dict_text(const DictKeyTypes& entry) {
  std::string text;
  for (const std::string& key : entry.dict) text += (text.empty() ? "" : ".") + key;
  return text.empty() ? "the tree" : text;
}

// Keeps the types of keys of the dicts of an item that are still there.
void keep_key_types(const std::string& item, std::vector<DictKeyTypes> types,
                    const std::vector<std::size_t>& leaves, ConvertPlan& plan) {
  std::vector<const KeyPath*> paths;
  paths.reserve(leaves.size());
  for (const std::size_t number : leaves) paths.push_back(&plan.paths[number]);
  const std::vector<std::string> faults = key_type_faults(types, paths);
  std::vector<DictKeyTypes>& kept = plan.key_types[item];
  for (std::size_t i = 0; i < types.size(); ++i)
    if (faults[i].empty())
      kept.push_back(std::move(types[i]));
    else
      plan.report.left_out.emplace_back("types of keys of " + dict_text(types[i]), faults[i]);
}

void lose_key_types(const std::vector<DictKeyTypes>& types, ConvertPlan& plan) {
  for (const DictKeyTypes& entry : types)
    if (entry.type != "str")
      plan.report.left_out.emplace_back(
          "types of keys of " + dict_text(entry),
          format_text(plan.report.format) + " stores keys as text, without their types");
}

// The dicts above the leaves that are converted, as keys from the root.
std::set<std::vector<std::string>> converted_dicts(const Checkpoint& source,
                                                   const ConvertPlan& plan) {
  std::set<std::vector<std::string>> dicts{{}};
  for (const std::size_t index : plan.indices) {
    const TensorInfo& leaf = source.tensors()[index];
    std::vector<std::string> dict;
    if (leaf.item) dict.push_back(*leaf.item);
    for (const Key& key : leaf.path) {
      dicts.insert(dict);
      dict.push_back(key.text);
    }
  }
  return dicts;
}

// For a target that is one tree.
void keep_key_types_of_tree(const Checkpoint& source, std::vector<DictKeyTypes> types,
                            ConvertPlan& plan) {
  if (types.empty()) return;
  const auto dicts = converted_dicts(source, plan);
  std::erase_if(types, [&](const DictKeyTypes& entry) { return !dicts.contains(entry.dict); });
  if (!keeps_key_types(plan.report.format)) {
    lose_key_types(types, plan);
    // Only dicts that are pickled with their keys, such as those in tuples, keep them.
    if (plan.report.format == TargetFormat::kDcp) plan.key_types[""] = std::move(types);
    return;
  }
  std::vector<std::size_t> all(plan.indices.size());
  std::iota(all.begin(), all.end(), std::size_t{0});
  keep_key_types("", std::move(types), all, plan);
}

}  // namespace

void keep_types(const Checkpoint& source, ConvertPlan& plan) {
  const orbax::OrbaxCheckpoint* from = orbax_source(source);
  if (from == nullptr) return keep_key_types_of_tree(source, source.key_types(), plan);
  const auto key_types = try_call([&] { return from->key_types(); });
  if (!key_types) plan.report.left_out.emplace_back("types of keys", key_types.error().message());
  if (!is_orbax_format(plan.report.format)) {
    if (key_types) keep_key_types_of_tree(source, key_types.value(), plan);
    return;
  }
  const auto items = from->opened_items();
  for (const orbax::PytreeItem& item : items) {
    const auto leaves = leaves_of(item, plan, items.size() == 1);
    if (!leaves) continue;
    if (key_types && !item.metadata.key_types.empty())
      keep_key_types(item.item.name, parse_key_types(item.metadata.key_types), *leaves, plan);
    if (item.metadata.rich_types.empty()) continue;
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
