// object_graph_build.cc -- builds a tree from the steps of the keys and numbers its nodes in
// TensorFlow's order.
#include <cairn/formats/tensorflow/write/object_graph_build.h>

#include <cairn/base/text.h>
#include <cairn/base/utf8.h>
#include <cairn/error.h>

#include <algorithm>
#include <map>
#include <string_view>
#include <utility>

namespace cairn::inline v0 {
namespace {

// "model/layer.S1" gives "model", "layer.S1"; an empty string gives an empty list.
std::vector<std::string_view> steps_of(std::string_view path) {
  std::vector<std::string_view> steps = split(path, '/');
  if (steps.back().empty()) steps.pop_back();
  return steps;
}

class Builder {
 public:
  void add(const GraphKey& key) {
    if (!key.key.ends_with(kVariableSuffix)) return;
    if (!valid_utf8(key.key) || !valid_utf8(key.full_name))
      throw Error(Code::kInvalidArgument,
                  "'" + key.key + "': the name is not UTF-8, which names of objects require");
    const auto steps =
        steps_of(std::string_view(key.key).substr(0, key.key.size() - kVariableSuffix.size()));
    const std::span<const std::string_view> all(steps);
    const auto at =
        static_cast<std::size_t>(std::find(steps.begin(), steps.end(), kSlotStep) - steps.begin());
    // The slot of a variable: an optimizer and a name follow the mark.
    const bool is_slot = at > 0 && at + 2 < steps.size();
    const std::size_t node = is_slot ? nodes_.size() : node_of(all);
    if (is_slot) {
      nodes_.emplace_back();
      const std::size_t variable = node_of(all.first(at));
      const std::size_t optimizer = node_of(all.subspan(at + 1, steps.size() - at - 2));
      nodes_[optimizer].slots.push_back({static_cast<std::uint32_t>(variable),
                                         unescape_trackable(steps.back()),
                                         static_cast<std::uint32_t>(node)});
    }
    nodes_[node].attributes.push_back({std::string(kVariableAttribute),
                                       key.full_name.empty() ? path_of(all) : key.full_name,
                                       key.key});
  }

  ObjectGraph graph() && {
    std::vector<std::uint32_t> order = {0}, number(nodes_.size(), 0);
    for (std::size_t i = 0; i < order.size(); ++i) {
      number[order[i]] = static_cast<std::uint32_t>(i);
      for (const auto& child : nodes_[order[i]].children) order.push_back(child.node);
    }
    const std::size_t reached = order.size();
    for (std::size_t i = 0; i < reached; ++i)
      for (const auto& slot : nodes_[order[i]].slots) {
        number[slot.node] = static_cast<std::uint32_t>(order.size());
        order.push_back(slot.node);
      }
    ObjectGraph graph;
    for (const std::uint32_t node : order) {
      for (auto& child : nodes_[node].children) child.node = number[child.node];
      for (auto& slot : nodes_[node].slots) {
        slot.variable = number[slot.variable];
        slot.node = number[slot.node];
      }
      graph.push_back(std::move(nodes_[node]));
      graph.back().has_values = true;
    }
    return graph;
  }

 private:
  std::size_t node_of(std::span<const std::string_view> steps) {
    std::size_t node = 0;
    for (const std::string_view escaped : steps) {
      const std::string step = unescape_trackable(escaped);
      const auto [at, is_new] = children_.try_emplace({node, step}, nodes_.size());
      if (is_new) {
        nodes_[node].children.push_back({static_cast<std::uint32_t>(nodes_.size()), step});
        nodes_.emplace_back();
      }
      node = at->second;
    }
    return node;
  }
  static std::string path_of(std::span<const std::string_view> steps) {
    std::string path;
    for (const std::string_view step : steps)
      path += (path.empty() ? "" : "/") + unescape_trackable(step);
    return path;
  }

  ObjectGraph nodes_{1};  // in order of creation
  std::map<std::pair<std::size_t, std::string>, std::size_t> children_;
};

}  // namespace

ObjectGraph build_object_graph(std::span<const GraphKey> keys) {
  Builder builder;
  for (const GraphKey& key : keys) builder.add(key);
  return std::move(builder).graph();
}

}  // namespace cairn::inline v0
