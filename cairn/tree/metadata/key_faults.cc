// key_faults.cc -- finds leaves whose keys form no tree.
#include <cairn/tree/metadata/key_faults.h>

#include <cairn/tree/names.h>

#include <algorithm>
#include <charconv>
#include <cstdint>

namespace cairn::inline v0 {
namespace {

std::int64_t index_of(const Key& key) {
  std::int64_t index = 0;
  std::from_chars(key.text.data(), key.text.data() + key.text.size(), index);
  return index;
}

// The node that the first `depth` keys lead to.
std::string node_text(const KeyPath& path, std::size_t depth) {
  return quoted_leaf_text(KeyPath(path.begin(), path.begin() + static_cast<std::ptrdiff_t>(depth)));
}

// The number of keys that both paths begin with.
std::size_t common_keys(const KeyPath& a, const KeyPath& b) {
  return static_cast<std::size_t>(std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first -
                                  a.begin());
}

// Describes the first fault of `path`, which follows `before` in key path order. Returns "" if it
// has none. Neighbors suffice: the leaves below a node are adjacent, and items precede keys.
std::string fault_of(const KeyPath& before, const KeyPath& path) {
  const std::size_t common = common_keys(before, path);
  for (std::size_t depth = common; depth < path.size(); ++depth) {
    const Key& key = path[depth];
    const bool has_sibling = depth == common && depth < before.size();
    if (has_sibling && before[depth].type != key.type)
      return node_text(path, depth) + " has items of a list (" + before[depth].text +
             ") and keys of a dict ('" + key.text + "')";
    if (key.type != KeyType::kSequence) continue;
    const std::int64_t expected = has_sibling ? index_of(before[depth]) + 1 : 0;
    if (index_of(key) != expected)
      return node_text(path, depth) + " is a list with an item " + key.text +
             ", but without an item " + std::to_string(expected);
  }
  return "";
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
    if (std::string message = fault_of(i > 0 ? *paths[order[i - 1]] : root, *paths[order[i]]);
        !message.empty())
      faults.push_back({order[i], std::move(message)});
  return faults;
}

}  // namespace cairn::inline v0
