// tree_nodes.h -- what cairn tree draws: nodes with a line each.
#pragma once

#include <cairn/checkpoint.h>

#include <cstddef>
#include <string>
#include <vector>

namespace cairn {

// Each line carries its whole indentation: a hostile path of a hundred thousand steps would print
// gigabytes.
inline constexpr std::size_t kMaxDrawnDepth = 64;

struct DrawnNode {
  std::string label;
  std::string text = {};                   // behind the label: what it holds
  std::vector<std::size_t> children = {};  // nodes, in the order in which they are drawn
  const TensorInfo* leaf = nullptr;        // of which more may be said
};

// "float32 (3, 4)"
std::string leaf_text(const TensorInfo& tensor);

// The objects of a program, the first of the nodes being the root. Each is drawn where the fewest
// steps lead to it from the root, first found; other ways to it end in a line that says where that
// is. What an optimizer keeps for variables is below the optimizer; tensors that no object has are
// below the root.
std::vector<DrawnNode> object_nodes(const Checkpoint& checkpoint,
                                    const std::vector<ProgramObject>& objects);

}  // namespace cairn
