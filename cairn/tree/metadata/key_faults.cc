// key_faults.cc -- finds leaves whose keys form no tree.
#include <cairn/tree/metadata/key_faults.h>

#include <cairn/tree/names.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <set>
#include <utility>

namespace cairn::inline v0 {
namespace {

std::int64_t index_of(const Key& key) {
  std::int64_t index = 0;
  std::from_chars(key.text.data(), key.text.data() + key.text.size(), index);
  return index;
}

KeyPath first_keys(const KeyPath& path, std::size_t count) {
  return {path.begin(), path.begin() + static_cast<std::ptrdiff_t>(count)};
}

// The node that the first `depth` keys lead to.
std::string node_text(const KeyPath& path, std::size_t depth) {
  return quoted_leaf_text(first_keys(path, depth));
}

// The number of keys that both paths begin with.
std::size_t common_keys(const KeyPath& a, const KeyPath& b) {
  return static_cast<std::size_t>(std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first -
                                  a.begin());
}

// Finds the first fault of `path`, which follows `before` in key path order. Its message is empty
// if there is none. Neighbors suffice: the leaves below a node are adjacent, and items precede
// keys.
KeyFault fault_of(std::size_t leaf, const KeyPath& before, const KeyPath& path) {
  const std::size_t common = common_keys(before, path);
  for (std::size_t depth = common; depth < path.size(); ++depth) {
    const Key& key = path[depth];
    const bool has_sibling = depth == common && depth < before.size();
    if (has_sibling && before[depth].type != key.type)
      return {leaf, depth,
              node_text(path, depth) + " has items of a list (" + before[depth].text +
                  ") and keys of a dict ('" + key.text + "')"};
    if (key.type != KeyType::kSequence) continue;
    const std::int64_t expected = has_sibling ? index_of(before[depth]) + 1 : 0;
    if (index_of(key) != expected)
      return {leaf, depth,
              node_text(path, depth) + " is a list with an item " + key.text +
                  ", but without an item " + std::to_string(expected)};
  }
  return {};
}

}  // namespace

std::vector<KeyFault> find_key_faults(std::span<const KeyPath* const> paths) {
  std::vector<std::size_t> order(paths.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  const auto before = [&](std::size_t a, std::size_t b) {
    return key_path_less(*paths[a], *paths[b]);
  };
  // Checkpoints already list their leaves in this order.
  if (!std::is_sorted(order.begin(), order.end(), before))
    std::stable_sort(order.begin(), order.end(), before);
  std::vector<KeyFault> faults;
  const KeyPath root;
  for (std::size_t i = 0; i < order.size(); ++i)
    if (KeyFault fault = fault_of(order[i], i > 0 ? *paths[order[i - 1]] : root, *paths[order[i]]);
        !fault.message.empty())
      faults.push_back(std::move(fault));
  return faults;
}

void turn_faulty_nodes_into_dicts(std::span<KeyPath* const> paths) {
  const std::vector<const KeyPath*> all(paths.begin(), paths.end());
  // A leaf has its first fault only, so a faulty node below another one needs another round.
  for (auto faults = find_key_faults(all); !faults.empty(); faults = find_key_faults(all)) {
    std::set<KeyPath, decltype(&key_path_less)> nodes(&key_path_less);
    for (const auto& [leaf, depth, message] : faults) nodes.insert(first_keys(*all[leaf], depth));
    for (KeyPath* path : paths) {
      const KeyPath before = *path;
      for (std::size_t depth = 0; depth < before.size(); ++depth)
        if (nodes.contains(first_keys(before, depth))) (*path)[depth].type = KeyType::kDict;
    }
  }
}

}  // namespace cairn::inline v0
