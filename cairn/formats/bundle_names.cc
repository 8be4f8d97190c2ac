// bundle_names.cc -- cutting keys at slashes, so that no leaf stands where others have a node.
#include <cairn/formats/bundle_names.h>
#include <cairn/formats/object_graph.h>

#include <algorithm>
#include <string_view>
#include <unordered_set>

namespace cairn {
namespace {

std::string_view without_suffix(std::string_view key) {
  if (key.ends_with(kVariableSuffix)) key.remove_suffix(kVariableSuffix.size());
  return key;
}

void cut(std::string_view key, KeyPath& path) {
  for (std::size_t start = 0; start <= key.size();) {
    const std::size_t end = std::min(key.find('/', start), key.size());
    path.push_back({unescape_trackable(key.substr(start, end - start)), KeyType::kDict});
    start = end + 1;
  }
}

}  // namespace

std::vector<KeyPath> bundle_paths(std::span<const std::string_view> keys) {
  // Every place that has something below it.
  std::unordered_set<std::string_view> nodes = {""};
  std::unordered_set<std::string_view> leaves;
  for (const std::string_view key : keys) {
    const std::string_view name = without_suffix(key);
    for (std::size_t at = name.find('/'); at != std::string_view::npos; at = name.find('/', at + 1)) nodes.insert(name.substr(0, at));
  }
  std::vector<KeyPath> paths;
  paths.reserve(keys.size());
  for (const std::string_view key : keys) {
    const std::string_view name = without_suffix(key);
    KeyPath& path = paths.emplace_back();
    if (!name.empty()) cut(name, path);
    if (!nodes.contains(name) && leaves.insert(name).second) continue;
    path.push_back({std::string(kAttributesStep), KeyType::kDict});
    path.push_back({std::string(kVariableAttribute), KeyType::kDict});
  }
  return paths;
}

}  // namespace cairn
