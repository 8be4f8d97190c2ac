// split.h -- splits a level of the B+tree into nodes, at exactly the same places as TensorStore.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace cairn::inline v0::ocdbt {

// The sizes that count towards max_decoded_node_bytes. They estimate the decoded size, not the
// encoded size.
inline std::uint64_t leaf_entry_size(std::size_t key, std::uint64_t inline_value) {
  return 16 + key + inline_value;
}
inline std::uint64_t reference_entry_size(std::size_t key, std::size_t path) {
  return 16 + key + 16 + path;
}
inline std::uint64_t child_entry_size(std::size_t key, std::size_t path) { return 56 + key + path; }

// Returns the number of leading bytes that two keys share.
std::size_t common_prefix_length(std::string_view a, std::string_view b);

// The limits of a node.
struct SplitLimits {
  std::uint64_t max_bytes = 0;  // 0: no limit
  // 1 for leaves, 2 for interior nodes; the last node may have fewer entries
  std::size_t min_entries = 1;
  std::size_t shared_by_all = 0;  // length of the shortest common prefix of two neighbouring keys
};
// Returns the end index of each node, given the size of each entry.
std::vector<std::size_t> split_entries(std::span<const std::uint64_t> sizes,
                                       const SplitLimits& limits);

}  // namespace cairn::inline v0::ocdbt
