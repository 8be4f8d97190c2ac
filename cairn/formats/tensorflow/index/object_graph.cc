// object_graph.cc -- the object graph's message, both directions.
//
//   TrackableObjectGraph   1 nodes
//   TrackableObject        1 children {1 node_id, 2 local_name}
//                          2 attributes {1 name, 2 full_name, 3 checkpoint_key}
//                          3 slot_variables {1 original_variable_node_id, 2 slot_name,
//                                            3 slot_variable_node_id}
//                          4 registered_saver {1 name, 2 object_name}
//                          5 has_checkpoint_values {1 value}
#include <cairn/formats/tensorflow/index/object_graph.h>

#include <cairn/formats/tensorflow/index/proto_wire.h>

#include <limits>

namespace cairn::inline v0 {
namespace {

std::uint32_t node_number(std::int64_t value) {
  if (value < 0 || value > std::numeric_limits<std::int32_t>::max())
    throw Error(Code::kDataLoss, "invalid node number " + std::to_string(value));
  return static_cast<std::uint32_t>(value);
}

TrackableNode::Child parse_child(ByteView bytes) {
  TrackableNode::Child child;
  for (ProtoReader in(bytes); in.next();) {
    if (in.number() == 1) child.node = node_number(in.integer());
    if (in.number() == 2) child.name = in.text();
  }
  return child;
}

TrackableNode::Attribute parse_attribute(ByteView bytes) {
  TrackableNode::Attribute attribute;
  for (ProtoReader in(bytes); in.next();) {
    if (in.number() == 1) attribute.name = in.text();
    if (in.number() == 2) attribute.full_name = in.text();
    if (in.number() == 3) attribute.checkpoint_key = in.text();
  }
  return attribute;
}

TrackableNode::Slot parse_slot(ByteView bytes) {
  TrackableNode::Slot slot;
  for (ProtoReader in(bytes); in.next();) {
    if (in.number() == 1) slot.variable = node_number(in.integer());
    if (in.number() == 2) slot.name = in.text();
    if (in.number() == 3) slot.node = node_number(in.integer());
  }
  return slot;
}

TrackableNode::Saver parse_saver(ByteView bytes) {
  TrackableNode::Saver saver;
  for (ProtoReader in(bytes); in.next();) {
    if (in.number() == 1) saver.name = in.text();
    if (in.number() == 2) saver.object_name = in.text();
  }
  return saver;
}

bool parse_bool_value(ByteView bytes) {
  bool value = false;
  for (ProtoReader in(bytes); in.next();)
    if (in.number() == 1) value = in.integer() != 0;
  return value;
}

TrackableNode parse_node(ByteView bytes) {
  TrackableNode node;
  for (ProtoReader in(bytes); in.next();) {
    switch (in.number()) {
      case 1:
        node.children.push_back(parse_child(in.message()));
        break;
      case 2:
        node.attributes.push_back(parse_attribute(in.message()));
        break;
      case 3:
        node.slots.push_back(parse_slot(in.message()));
        break;
      case 4:
        node.saver = parse_saver(in.message());
        break;
      case 5:
        node.has_values = parse_bool_value(in.message());
        break;
      default:
        break;
    }
  }
  return node;
}

void check_edges(const ObjectGraph& graph) {
  for (std::size_t i = 0; i < graph.size(); ++i) {
    const auto check = [&](std::uint32_t to) {
      if (to >= graph.size())
        throw Error(Code::kDataLoss, "object " + std::to_string(i) + " refers to object " +
                                         std::to_string(to) + " of " +
                                         std::to_string(graph.size()));
    };
    for (const auto& child : graph[i].children) check(child.node);
    for (const auto& slot : graph[i].slots) {
      check(slot.variable);
      check(slot.node);
    }
  }
}

Bytes encode_node(const TrackableNode& node) {
  ProtoWriter out;
  for (const auto& child : node.children)
    out.message(1, ProtoWriter().integer(1, child.node).text(2, child.name).view());
  for (const auto& attribute : node.attributes)
    out.message(2, ProtoWriter()
                       .text(1, attribute.name)
                       .text(2, attribute.full_name)
                       .text(3, attribute.checkpoint_key)
                       .view());
  for (const auto& slot : node.slots)
    out.message(
        3, ProtoWriter().integer(1, slot.variable).text(2, slot.name).integer(3, slot.node).view());
  if (node.saver)
    out.message(4, ProtoWriter().text(1, node.saver->name).text(2, node.saver->object_name).view());
  if (node.has_values) out.message(5, ProtoWriter().integer(1, *node.has_values ? 1 : 0).view());
  return std::move(out).take();
}

}  // namespace

ObjectGraph parse_object_graph(ByteView bytes) {
  ObjectGraph graph;
  for (ProtoReader in(bytes); in.next();)
    if (in.number() == 1)
      graph.push_back(cairn::with_context([&] { return "object " + std::to_string(graph.size()); },
                                          [&] { return parse_node(in.message()); }));
  check_edges(graph);
  return graph;
}

Bytes encode_object_graph(const ObjectGraph& graph) {
  ProtoWriter out;
  for (const TrackableNode& node : graph) out.message(1, encode_node(node));
  return std::move(out).take();
}

std::string escape_trackable(std::string_view name) {
  std::string text;
  for (const char c : name) {
    if (c == '/')
      text += ".S";
    else
      text.append(c == '.' ? 2 : 1, c);
  }
  return text;
}

std::string unescape_trackable(std::string_view name) {
  std::string text;
  for (std::size_t i = 0; i < name.size(); ++i) {
    const bool escaped =
        name[i] == '.' && i + 1 < name.size() && (name[i + 1] == '.' || name[i + 1] == 'S');
    text += escaped && name[i + 1] == 'S' ? '/' : name[i];
    if (escaped) ++i;
  }
  return text;
}

}  // namespace cairn::inline v0
