// object_graph_build.cc -- a tree of the keys' steps, and its nodes in TensorFlow's order.
#include <cairn/base/utf8.h>
#include <cairn/error.h>
#include <cairn/formats/object_graph_build.h>

#include <map>
#include <string_view>
#include <utility>

namespace cairn {
namespace {

// "model/layer.S1" as "model", "layer/1"; nothing of an empty text.
std::vector<std::string> steps_of(std::string_view path) {
  std::vector<std::string> steps;
  while (!path.empty()) {
    const std::size_t end = std::min(path.find('/'), path.size());
    steps.push_back(unescape_trackable(path.substr(0, end)));
    path.remove_prefix(std::min(end + 1, path.size()));
  }
  return steps;
}

class Builder {
 public:
  void add(const GraphKey& key) {
    if (!key.key.ends_with(kVariableSuffix)) return;
    if (!valid_utf8(key.key) || !valid_utf8(key.full_name))
      throw Error(Code::kInvalidArgument, "'" + key.key + "': the name is not UTF-8, which those of objects must be");
    std::size_t node = 0;
    std::string path;
    for (const std::string& step : steps_of(std::string_view(key.key).substr(0, key.key.size() - kVariableSuffix.size()))) {
      path += path.empty() ? step : "/" + step;
      const auto [at, is_new] = children_.try_emplace({node, step}, nodes_.size());
      if (is_new) {
        nodes_[node].children.push_back({static_cast<std::uint32_t>(nodes_.size()), step});
        nodes_.emplace_back();
      }
      node = at->second;
    }
    nodes_[node].attributes.push_back({std::string(kVariableAttribute), key.full_name.empty() ? path : key.full_name, key.key});
  }

  ObjectGraph graph() && {
    std::vector<std::uint32_t> order = {0}, number(nodes_.size(), 0);
    for (std::size_t i = 0; i < order.size(); ++i) {
      number[order[i]] = static_cast<std::uint32_t>(i);
      for (const auto& child : nodes_[order[i]].children) order.push_back(child.node);
    }
    ObjectGraph graph;
    for (const std::uint32_t node : order) {
      for (auto& child : nodes_[node].children) child.node = number[child.node];
      graph.push_back(std::move(nodes_[node]));
      graph.back().has_values = true;
    }
    return graph;
  }

 private:
  ObjectGraph nodes_{1};  // as they come
  std::map<std::pair<std::size_t, std::string>, std::size_t> children_;
};

}  // namespace

ObjectGraph build_object_graph(std::span<const GraphKey> keys) {
  Builder builder;
  for (const GraphKey& key : keys) builder.add(key);
  return std::move(builder).graph();
}

}  // namespace cairn
