// tree_nodes.h -- the nodes that `cairn tree` draws, one line each.
#pragma once

#include <cairn/checkpoint.h>

#include <cstddef>
#include <string>
#include <vector>

namespace cairn::inline v0 {

// The depth limit. Each line contains its whole indentation, so a hostile path of a hundred
// thousand steps would print gigabytes.
inline constexpr std::size_t kMaxDrawnDepth = 64;

// One line of the drawing.
struct DrawnNode {
  std::string label;
  std::string text = {};                   // printed after the label: the content
  std::vector<std::size_t> children = {};  // in drawing order
  const TensorInfo* leaf = nullptr;  // null, or the leaf that the node shows, for further details
  Key key = {};                      // of a node of the pytree: its last key, nothing escaped
};

// The type and shape of a leaf: "float32 (3, 4)".
std::string leaf_text(const TensorInfo& tensor);

// Cuts the nodes below `depth` levels off; the text of their parent counts the leaves.
void limit_depth(std::vector<DrawnNode>& nodes, std::size_t depth);
// Replaces siblings that differ only in the numbers of their labels by the first of them, whose
// label then has the ranges: "layers_{0-31}". `is_same` compares two leaves beyond their text.
void collapse_equal(std::vector<DrawnNode>& nodes, bool with_shardings);
// The number of leaves at and below a node.
std::size_t count_leaves(const std::vector<DrawnNode>& nodes, std::size_t node);

// The objects of a program; the first node is the root. Each object is drawn at the end of a
// shortest path from the root, the first one found. Every other edge to it ends in a line that
// refers to that place. Optimizer slots are below their optimizer. Tensors without an object are
// below the root.
std::vector<DrawnNode> object_nodes(const Checkpoint& checkpoint,
                                    const std::vector<ProgramObject>& objects);

}  // namespace cairn::inline v0
