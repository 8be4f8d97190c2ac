// bundle_names.cc -- splits keys at slashes such that a leaf never has the same path as a node.
#include <cairn/formats/tensorflow/read/bundle_names.h>

#include <cairn/base/text.h>
#include <cairn/formats/tensorflow/index/object_graph.h>

#include <algorithm>
#include <numeric>
#include <string_view>
#include <unordered_set>

namespace cairn::inline v0 {
namespace {

std::string_view without_suffix(std::string_view key) {
  if (key.ends_with(kVariableSuffix)) key.remove_suffix(kVariableSuffix.size());
  return key;
}

// Whether two paths are equal, or one is a prefix of another. Unescaped steps ("a.b", only in names
// of TensorFlow 1) may equal escaped ones ("a..b").
bool clash(const std::vector<KeyPath>& paths) {
  std::vector<std::size_t> order(paths.size());
  std::iota(order.begin(), order.end(), 0);
  const auto text = [](const Key& step) -> const std::string& { return step.text; };
  const auto before = [&](std::size_t a, std::size_t b) {
    return std::ranges::lexicographical_compare(paths[a], paths[b], {}, text, text);
  };
  std::sort(order.begin(), order.end(), before);
  return std::adjacent_find(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
           return paths[a].size() <= paths[b].size() &&
                  std::ranges::equal(paths[a], std::span(paths[b]).first(paths[a].size()), {}, text,
                                     text);
         }) != order.end();
}

void cut(std::string_view key, KeyPath& path) {
  for (const std::string_view step : split(key, '/'))
    path.push_back({unescape_trackable(step), KeyType::kDict});
}

}  // namespace

std::vector<KeyPath> bundle_paths(std::span<const std::string_view> keys) {
  // All names that have others below them.
  std::unordered_set<std::string_view> nodes = {""};
  std::unordered_set<std::string_view> leaves;
  for (const std::string_view key : keys) {
    any_parent(without_suffix(key), [&](std::string_view node) {
      nodes.insert(node);
      return false;
    });
  }
  std::vector<KeyPath> paths;
  paths.reserve(keys.size());
  bool has_escapes = false;
  for (const std::string_view key : keys) {
    const std::string_view name = without_suffix(key);
    has_escapes = has_escapes || name.find("..") != std::string_view::npos ||
                  name.find(".S") != std::string_view::npos;
    KeyPath& path = paths.emplace_back();
    if (!name.empty()) cut(name, path);
    if (!nodes.contains(name) && leaves.insert(name).second) continue;
    path.push_back({std::string(kAttributesStep), KeyType::kDict});
    path.push_back({std::string(kVariableAttribute), KeyType::kDict});
  }
  if (has_escapes && clash(paths))
    for (std::size_t i = 0; i < keys.size(); ++i)
      paths[i] = {{std::string(keys[i]), KeyType::kDict}};
  return paths;
}

}  // namespace cairn::inline v0
