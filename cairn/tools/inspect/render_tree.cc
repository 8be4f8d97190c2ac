// render_tree.cc -- draws the pytree, one line a node.
#include <cairn/inspect.h>

#include <cairn/tools/inspect/render_sharding.h>
#include <cairn/tools/inspect/tree_nodes.h>
#include <cairn/tools/report/json_text.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <tuple>
#include <utility>

namespace cairn::inline v0 {
namespace {

// Builds the tree from a flat list of paths. The first node is the root.
class Arena {
 public:
  Arena() { nodes_.emplace_back(); }
  std::vector<DrawnNode> take() { return std::move(nodes_); }
  void add(const TensorInfo& tensor, const KeyPath& path) {
    std::size_t at = 0;
    if (tensor.item) at = child(at, {*tensor.item, KeyType::kDict}, "");
    for (std::size_t d = 0; d < path.size(); ++d) {
      if (d == kMaxDrawnDepth) {  // the remaining keys share one line, joined with '.'
        std::string rest;
        for (std::size_t i = d; i < path.size(); ++i)
          rest.append(i > d ? "." : "").append(path[i].text);
        at = child(at, {rest, KeyType::kDict}, "deep");
        break;
      }
      at = child(at, path[d], "");
    }
    // If two leaves have one path (a broken file), show both.
    if (nodes_[at].leaf != nullptr) at = child(at, {"(again)", KeyType::kDict}, tensor.name);
    nodes_[at].leaf = &tensor;
    nodes_[at].text = leaf_text(tensor);
  }

 private:
  std::size_t child(std::size_t parent, const Key& key, const std::string& apart) {
    const auto [entry, added] =
        index_.try_emplace({parent, key.type, key.text, apart}, nodes_.size());
    if (added) {
      nodes_.push_back({.label = key.type == KeyType::kSequence ? "[" + key.text + "]"
                                                                : printable_text(key.text),
                        .key = key});
      nodes_[parent].children.push_back(entry->second);
    }
    return entry->second;
  }

  std::vector<DrawnNode> nodes_;
  std::map<std::tuple<std::size_t, KeyType, std::string, std::string>, std::size_t> index_;
};

struct Palette {
  std::string_view line, leaf, end;
};

// The lines below a leaf's own line.
std::string notes_text(const TensorInfo& t, const std::string& prefix, const Palette& palette) {
  std::string out;
  if (t.sharding.empty() || !t.is_array() || !t.is_described()) return out;
  for (const std::string& line : sharding_lines(t.sharding, t.shape))
    out.append(palette.line)
        .append(prefix)
        .append("  ")
        .append(line)
        .append(palette.end)
        .append("\n");
  return out;
}

// The path of a leaf. With `split`, a flat name becomes the parts between its '.' or '/'.
KeyPath drawn_path(const TensorInfo& tensor, bool split) {
  if (!split || tensor.path.size() != 1 || tensor.path[0].type != KeyType::kDict)
    return tensor.path;
  KeyPath parts;
  for (std::string_view rest = tensor.path[0].text; !rest.empty();) {
    const std::size_t end = std::min(rest.find_first_of("./"), rest.size());
    if (end > 0) parts.push_back({std::string(rest.substr(0, end)), KeyType::kDict});
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return parts.empty() ? tensor.path : parts;
}

std::vector<DrawnNode> path_nodes(const Checkpoint& checkpoint, const TreeStyle& style) {
  Arena arena;
  const auto& tensors = checkpoint.tensors();
  const auto add = [&](const TensorInfo& t) {
    arena.add(t, drawn_path(t, style.depth.has_value()));
  };
  if (style.leaves)
    for (const std::size_t i : *style.leaves) add(tensors.at(i));
  else
    for (const TensorInfo& tensor : tensors) add(tensor);
  return arena.take();
}

// The nodes of the program's objects, if the format has them and they can be read; otherwise those
// of the paths.
std::vector<DrawnNode> nodes_of(const Checkpoint& checkpoint, const TreeStyle& style) {
  if (style.leaves) return path_nodes(checkpoint, style);
  const auto objects = try_call([&] { return checkpoint.objects(); });
  if (objects.ok() && !objects.value().empty()) return object_nodes(checkpoint, objects.value());
  std::vector<DrawnNode> nodes = path_nodes(checkpoint, style);
  if (!objects.ok())
    nodes[0].text =
        "(by their keys: the program's objects cannot be read: " + objects.error().message() + ")";
  return nodes;
}

// A node's own lines: its label, folded if it is too long, and its text. `before` is drawn before
// the label; `prefix` before the lines that continue it.
std::string node_lines(const DrawnNode& node, const std::string& before, const std::string& prefix,
                       std::size_t width, const Palette& palette) {
  constexpr std::size_t kLeastWidth = 20;
  const std::string text = printable_text(node.text);
  const std::size_t indent = display_width(before);
  const std::size_t room = width > indent + kLeastWidth ? width - indent : kLeastWidth;
  const auto line_start = [&](const std::string& start) {
    return std::string(palette.line).append(start).append(palette.end);
  };
  const auto painted = [&] { return std::string(palette.leaf).append(text).append(palette.end); };
  std::string out = line_start(before);
  if (display_width(node.label) + (text.empty() ? 0 : 2 + display_width(text)) <= room)
    return out.append(node.label).append(text.empty() ? "" : "  " + painted()).append("\n");
  bool is_first = true;
  for (const std::string_view piece : fold_pieces(node.label, room)) {
    if (!std::exchange(is_first, false)) out.append("\n").append(line_start(prefix));
    out.append(piece);
  }
  if (!text.empty()) out.append("\n").append(line_start(prefix)).append("  ").append(painted());
  return out.append("\n");
}

Json node_json(const std::vector<DrawnNode>& nodes, std::size_t at,
               std::optional<std::size_t> depth) {
  const DrawnNode& node = nodes[at];
  JsonObject out;
  if (at != 0) {
    std::int64_t index = 0;
    const std::string& text = node.key.text;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), index);
    const bool is_index = node.key.type == KeyType::kSequence && error == std::errc() &&
                          end == text.data() + text.size();
    out.emplace_back("key", is_index ? Json(index) : text_json(text));
  }
  if (node.leaf != nullptr) {
    const TensorInfo& leaf = *node.leaf;
    out.emplace_back("name", text_json(leaf.name));
    out.emplace_back("dtype", leaf.dtype_name.empty() ? Json() : text_json(leaf.dtype_name));
    out.emplace_back("shape",
                     leaf.is_array() && leaf.is_described() ? shape_json(leaf.shape) : Json());
    out.emplace_back("kind", text_json(leaf.typestr));
    out.emplace_back("nbytes", leaf.nbytes);
  }
  if (node.children.empty()) return out;
  if (depth == 0) {
    out.emplace_back("leaves", static_cast<std::uint64_t>(count_leaves(nodes, at)));
    return out;
  }
  JsonArray children;
  for (const std::size_t child : node.children)
    children.push_back(node_json(nodes, child, depth ? std::optional(*depth - 1) : depth));
  out.emplace_back("children", std::move(children));
  return out;
}

}  // namespace

std::string leaf_text(const TensorInfo& t) {
  if (!t.is_described()) return "unreadable";
  if (t.is_custom()) return "custom: " + t.typestr;
  if (t.is_array())
    return t.dtype_name + " " + shape_text(t.shape) +
           (t.typestr == "scalar"       ? " scalar"
            : t.typestr == "np.generic" ? " NumPy scalar"
                                        : "");
  if (t.is_string() && !t.shape.empty()) return "strings " + shape_text(t.shape);
  return t.dtype_name.empty() ? t.typestr : t.dtype_name;
}

std::string render_tree(const Checkpoint& checkpoint, Paint paint, TreeNotes notes) {
  return render_tree(checkpoint, TreeStyle{.paint = paint, .notes = notes});
}

std::string tree_json(const Checkpoint& checkpoint, const TreeStyle& style) {
  const std::vector<DrawnNode> nodes = path_nodes(checkpoint, style);
  const CheckpointInfo& info = checkpoint.info();
  const Json out = JsonObject{{"path", text_json(info.path)},
                              {"format", info.format},
                              {"leaves", static_cast<std::uint64_t>(count_leaves(nodes, 0))},
                              {"tree", node_json(nodes, 0, style.depth)}};
  return to_text(out, JsonStyle::kPretty) + "\n";
}

std::string render_tree(const Checkpoint& checkpoint, const TreeStyle& style) {
  const Palette palette =
      style.paint == Paint::kAnsi ? Palette{"\x1b[2m", "\x1b[36m", "\x1b[0m"} : Palette{};
  const TreeNotes notes = style.notes;
  std::vector<DrawnNode> nodes = nodes_of(checkpoint, style);
  if (style.depth) limit_depth(nodes, *style.depth);
  if (style.collapse) collapse_equal(nodes, notes == TreeNotes::kShardings);
  std::string out;
  const std::string path = printable_text(checkpoint.info().path);
  for (const std::string_view piece : fold_pieces(path, style.width))
    out.append(piece).append("\n");
  if (!nodes[0].text.empty()) out += printable_text(nodes[0].text) + "\n";
  if (nodes[0].leaf != nullptr && notes == TreeNotes::kShardings)
    out += notes_text(*nodes[0].leaf, "", palette);

  // Depth first with an explicit stack; `prefix` has the bars of the levels above.
  struct Level {
    std::size_t node;
    std::size_t next = 0;  // the next child to draw
  };
  std::vector<Level> stack{{0}};
  std::string prefix;
  std::vector<std::size_t> prefix_sizes;
  while (!stack.empty()) {
    Level& level = stack.back();
    const DrawnNode& parent = nodes[level.node];
    if (level.next == parent.children.size()) {
      stack.pop_back();
      if (!prefix_sizes.empty()) {
        prefix.resize(prefix_sizes.back());
        prefix_sizes.pop_back();
      }
      continue;
    }
    const std::size_t index = parent.children[level.next++];
    const bool last = level.next == parent.children.size();
    const DrawnNode& node = nodes[index];
    const std::string before = prefix + (last ? "└── " : "├── ");
    prefix_sizes.push_back(prefix.size());
    prefix += last ? "    " : "│   ";
    out += node_lines(node, before, prefix, style.width, palette);
    if (node.leaf != nullptr && notes == TreeNotes::kShardings)
      out += notes_text(*node.leaf, prefix, palette);
    stack.push_back({index});
  }
  return out;
}

}  // namespace cairn::inline v0
