// bundle_objects.cc -- the program's objects in a TensorFlow checkpoint, and names that follow
// their edges.
#include <cairn/base/text.h>
#include <cairn/formats/tensorflow/index/object_graph.h>
#include <cairn/formats/tensorflow/read/bundle_checkpoint.h>

#include <algorithm>

namespace cairn::inline v0 {
namespace {

bool name_less(const TensorInfo& tensor, std::string_view name) { return tensor.name < name; }

std::optional<std::size_t> find_name(const TensorList& tensors, std::string_view name) {
  const auto it = std::lower_bound(tensors.begin(), tensors.end(), name, name_less);
  if (it == tensors.end() || it->name != name) return std::nullopt;
  return static_cast<std::size_t>(it - tensors.begin());
}

// For some objects the graph has only the start of their tensors' keys.
std::vector<std::size_t> tensors_of(const TensorList& tensors, std::string_view key) {
  if (key.empty()) return {};
  if (const auto exact = find_name(tensors, key)) return {*exact};
  std::vector<std::size_t> found;
  for (auto it = std::lower_bound(tensors.begin(), tensors.end(), key, name_less);
       it != tensors.end() && it->name.starts_with(key); ++it)
    found.push_back(static_cast<std::size_t>(it - tensors.begin()));
  return found;
}

// The object at the end of a path from the root.
std::optional<std::size_t> walk(const std::vector<ProgramObject>& objects, std::string_view path,
                                char separator) {
  std::size_t at = 0;
  for (const std::string_view step : split(path, separator)) {
    const std::string name = separator == '/' ? unescape_trackable(step) : std::string(step);
    const auto& children = objects[at].children;
    const auto child = std::find_if(children.begin(), children.end(),
                                    [&](const ProgramObject::Child& c) { return c.name == name; });
    if (child == children.end()) return std::nullopt;
    at = child->object;
  }
  return at;
}

}  // namespace

std::vector<ProgramObject> BundleCheckpoint::objects() const {
  const auto index = find_name(tensors(), kObjectGraphKey);
  if (!index || !tensors()[*index].is_string()) return {};
  const std::string text = read_string(*index);
  const ObjectGraph graph = with_context([&] { return std::string(kObjectGraphKey); },
                                         [&] { return parse_object_graph(as_bytes(text)); });
  std::vector<ProgramObject> objects(graph.size());
  for (std::size_t i = 0; i < graph.size(); ++i) {
    for (const auto& child : graph[i].children)
      objects[i].children.push_back({child.name, child.node});
    for (const auto& slot : graph[i].slots)
      objects[i].slots.push_back({slot.name, slot.variable, slot.node});
    for (const auto& attribute : graph[i].attributes)
      objects[i].values.push_back(
          {attribute.name, attribute.full_name, tensors_of(tensors(), attribute.checkpoint_key)});
  }
  return objects;
}

std::optional<std::size_t> BundleCheckpoint::find_other(std::string_view name) const {
  if (const auto variable = find_name(tensors(), std::string(name).append(kVariableSuffix)))
    return variable;
  for (std::size_t i = 0; i < tensors().size(); ++i)
    if (param_name(tensors()[i].path) == name) return i;
  const std::vector<ProgramObject> graph = objects();
  if (graph.empty()) return std::nullopt;
  for (const char separator : {'/', '.'}) {
    const auto object = walk(graph, name, separator);
    if (!object) continue;
    const auto& values = graph[*object].values;
    if (values.size() == 1 && values.front().tensors.size() == 1)
      return values.front().tensors.front();
  }
  return std::nullopt;
}

}  // namespace cairn::inline v0
