// transform_keys.h -- helpers shared by the code that plans transforms and the code that applies
// them.
#pragma once

#include <cairn/orbax/transforms.h>

#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace cairn::inline v0 {

// The path as text, its steps joined with '/': "params/dense/0/kernel".
std::string transform_key(const KeyPath& path);
// Whether one of the transforms takes the stored tree as a whole.
bool has_multi_value_fn(const Transforms& transforms);

// The transforms of a nested tree, in the order of application. `read` returns the transform in a
// leaf, or nullopt if the leaf holds something else. See flatten_transforms for the rules.
template <class T, class Read>
std::vector<std::pair<std::string, T>> flatten_transform_leaves(const Tree& tree, Read read) {
  std::vector<std::pair<std::string, T>> transforms;
  std::unordered_map<std::string, std::size_t> places;
  for (const TreeEntry& entry : flatten(tree, DictOrder::kSorted)) {
    if (std::holds_alternative<EmptyNode>(entry.value.value())) continue;
    std::string key = transform_key(entry.path);
    std::optional<T> transform = read(entry.value);
    if (!transform)
      throw Error(Code::kInvalidArgument,
                  "the value at '" + key + "' in the transforms is not a transform");
    const auto [place, added] = places.emplace(key, transforms.size());
    if (added)
      transforms.emplace_back(std::move(key), *std::move(transform));
    else
      transforms[place->second].second = *std::move(transform);
  }
  return transforms;
}

}  // namespace cairn::inline v0
