// render_tree.cc -- draws the pytree, one line a node.
#include <cairn/inspect.h>

#include <cairn/tools/inspect/render_sharding.h>
#include <cairn/tools/inspect/tree_nodes.h>

#include <map>
#include <tuple>

namespace cairn::inline v0 {
namespace {

// Builds the tree from a flat list of paths. The first node is the root.
class Arena {
 public:
  Arena() { nodes_.emplace_back(); }
  std::vector<DrawnNode> take() { return std::move(nodes_); }
  void add(const TensorInfo& tensor) {
    std::size_t at = 0;
    if (tensor.item) at = child(at, {*tensor.item, KeyType::kDict}, "");
    for (std::size_t d = 0; d < tensor.path.size(); ++d) {
      if (d == kMaxDrawnDepth) {  // the remaining keys share one line, joined with '.'
        std::string rest;
        for (std::size_t i = d; i < tensor.path.size(); ++i)
          rest.append(i > d ? "." : "").append(tensor.path[i].text);
        at = child(at, {rest, KeyType::kDict}, "deep");
        break;
      }
      at = child(at, tensor.path[d], "");
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
                                                                : printable_text(key.text)});
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

// The nodes of the program's objects, if the format has them and they can be read; otherwise those
// of the paths.
std::vector<DrawnNode> nodes_of(const Checkpoint& checkpoint) {
  const auto objects = try_call([&] { return checkpoint.objects(); });
  if (objects.ok() && !objects.value().empty()) return object_nodes(checkpoint, objects.value());
  Arena arena;
  for (const auto& tensor : checkpoint.tensors()) arena.add(tensor);
  std::vector<DrawnNode> nodes = arena.take();
  if (!objects.ok())
    nodes[0].text =
        "(by their keys: the program's objects cannot be read: " + objects.error().message() + ")";
  return nodes;
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
  const Palette palette =
      paint == Paint::kAnsi ? Palette{"\x1b[2m", "\x1b[36m", "\x1b[0m"} : Palette{};
  const std::vector<DrawnNode> nodes = nodes_of(checkpoint);
  std::string out = printable_text(checkpoint.info().path) + "\n";
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
    out.append(palette.line)
        .append(prefix)
        .append(last ? "└── " : "├── ")
        .append(palette.end)
        .append(node.label);
    if (!node.text.empty())
      out.append("  ").append(palette.leaf).append(printable_text(node.text)).append(palette.end);
    out += '\n';
    prefix_sizes.push_back(prefix.size());
    prefix += last ? "    " : "│   ";
    if (node.leaf != nullptr && notes == TreeNotes::kShardings)
      out += notes_text(*node.leaf, prefix, palette);
    stack.push_back({index});
  }
  return out;
}

}  // namespace cairn::inline v0
