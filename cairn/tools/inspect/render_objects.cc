// render_objects.cc -- converts a graph of objects to a tree. A breadth-first search finds each
// object's place; then every edge gets a node.
#include <cairn/tools/inspect/tree_nodes.h>

#include <cairn/inspect.h>

#include <limits>

namespace cairn::inline v0 {
namespace {

constexpr std::size_t kNowhere = std::numeric_limits<std::size_t>::max();

class ObjectDrawing {
 public:
  ObjectDrawing(const Checkpoint& checkpoint, const std::vector<ProgramObject>& objects)
      : tensors_(checkpoint.tensors()),
        objects_(objects),
        places_(objects.size()),
        shown_(tensors_.size()) {}

  std::vector<DrawnNode> run() {
    find_places();
    nodes_.emplace_back();
    places_[0].node = 0;
    add_values(0);
    // Objects nearer to the root come first, so that a parent's node exists before its children's.
    for (const std::size_t object : order_) add_below(object);
    add_orphans();
    return std::move(nodes_);
  }

 private:
  struct Place {
    std::size_t parent = kNowhere;  // the object below which it is drawn
    std::string name;               // its name there
    std::size_t depth = 0;
    std::size_t node = kNowhere;
    bool found = false;
    bool drawn = false;
  };

  void find_places() {
    places_[0].found = true;
    order_.push_back(0);
    for (std::size_t at = 0; at < order_.size(); ++at) {
      const std::size_t object = order_[at];
      for (const auto& child : objects_[object].children) find(object, child.object, child.name);
    }
    // Slots come last: most are not children of any object, and a slot that is one is drawn there.
    for (std::size_t at = 0; at < order_.size(); ++at) {
      const std::size_t object = order_[at];
      for (const auto& child : objects_[object].children) find(object, child.object, child.name);
      for (const auto& slot : objects_[object].slots)
        find(object, slot.object, slot.name + " of " + path_of(slot.variable));
    }
  }
  void find(std::size_t parent, std::size_t object, std::string name) {
    Place& place = places_[object];
    if (place.found) return;
    place = {.parent = parent,
             .name = std::move(name),
             .depth = places_[parent].depth + 1,
             .found = true};
    order_.push_back(object);
  }

  [[nodiscard]] std::string path_of(std::size_t object) const {
    if (object == 0) return "the root";
    if (!places_[object].found) return "an unreachable object";
    // the last one first; limited, because more names would not help
    std::vector<const std::string*> names;
    for (; object != 0 && names.size() < kMaxDrawnDepth; object = places_[object].parent)
      names.push_back(&places_[object].name);
    std::string path = object == 0 ? "" : "...";
    for (std::size_t i = names.size(); i-- > 0;)
      path.append(path.empty() ? "" : "/").append(*names[i]);
    return path;
  }

  void add_below(std::size_t object) {
    const std::size_t node = places_[object].node;
    if (node == kNowhere) return;  // too deep
    for (const auto& child : objects_[object].children)
      add_edge(object, node, child.name, child.object);
    for (const auto& slot : objects_[object].slots) {
      const Place& place = places_[slot.object];
      if (place.parent == object && !place.drawn) add_edge(object, node, place.name, slot.object);
    }
  }

  void add_edge(std::size_t parent, std::size_t at, const std::string& name, std::size_t object) {
    Place& place = places_[object];
    const std::size_t node = nodes_.size();
    nodes_[at].children.push_back(node);
    nodes_.push_back({.label = printable_text(name)});
    if (object == 0 || place.drawn || place.parent != parent) {
      nodes_[node].text = "→ " + path_of(object);
      return;
    }
    place.drawn = true;
    if (place.depth == kMaxDrawnDepth) {
      nodes_[node].text = "...";
      return;
    }
    place.node = node;
    add_values(object);
  }

  // A single value is shown on the object's own line.
  void add_values(std::size_t object) {
    const auto& values = objects_[object].values;
    const std::size_t node = places_[object].node;
    const bool alone = values.size() == 1 && values.front().tensors.size() == 1 && node != 0;
    for (const auto& value : values) {
      for (const std::size_t index : value.tensors) {
        shown_[index] = true;
        const TensorInfo& tensor = tensors_[index];
        std::size_t at = node;
        if (!alone) {
          at = nodes_.size();
          nodes_[node].children.push_back(at);
          nodes_.push_back(
              {.label = printable_text(value.tensors.size() == 1
                                           ? value.name
                                           : tensor.name.substr(tensor.name.rfind('/') + 1))});
        }
        nodes_[at].leaf = &tensor;
        nodes_[at].text = leaf_text(tensor);
        if (!value.full_name.empty() && value.full_name != places_[object].name &&
            value.full_name != path_of(object))
          nodes_[at].text += "  " + value.full_name;
      }
    }
  }

  void add_orphans() {
    for (std::size_t i = 0; i < tensors_.size(); ++i) {
      if (shown_[i] || tensors_[i].typestr == "object_graph") continue;
      nodes_[0].children.push_back(nodes_.size());
      nodes_.push_back({.label = printable_text(tensors_[i].name),
                        .text = leaf_text(tensors_[i]) + "  of no object",
                        .children = {},
                        .leaf = &tensors_[i]});
    }
  }

  const TensorList tensors_;
  const std::vector<ProgramObject>& objects_;
  std::vector<Place> places_;       // parallel to objects_
  std::vector<std::size_t> order_;  // object numbers, nearest to the root first
  std::vector<bool> shown_;         // parallel to the checkpoint's tensors
  std::vector<DrawnNode> nodes_;
};

}  // namespace

std::vector<DrawnNode> object_nodes(const Checkpoint& checkpoint,
                                    const std::vector<ProgramObject>& objects) {
  return ObjectDrawing(checkpoint, objects).run();
}

}  // namespace cairn::inline v0
