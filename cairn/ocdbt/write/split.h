// split.h -- where a level of the B+tree is cut into nodes: exactly where TensorStore cuts it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace cairn::ocdbt {

// What counts against max_decoded_node_bytes: an estimate of the decoded size, not the encoded one.
inline std::uint64_t leaf_entry_size(std::size_t key, std::uint64_t inline_value) {
  return 16 + key + inline_value;
}
inline std::uint64_t reference_entry_size(std::size_t key, std::size_t path) {
  return 16 + key + 16 + path;
}
inline std::uint64_t child_entry_size(std::size_t key, std::size_t path) { return 56 + key + path; }

std::size_t common_prefix_length(std::string_view a, std::string_view b);

struct SplitLimits {
  std::uint64_t max_bytes = 0;  // 0: none
  // 1 for leaves, 2 for interior nodes; the last node may have fewer
  std::size_t min_entries = 1;
  std::size_t shared_by_all = 0;  // the shortest common prefix of two neighbouring keys
};
// The end of each node, given the size of each entry.
std::vector<std::size_t> split_entries(std::span<const std::uint64_t> sizes,
                                       const SplitLimits& limits);

}  // namespace cairn::ocdbt
