// split.cc -- splits a level into nodes of about equal size.
#include <cairn/ocdbt/write/split.h>

#include <cairn/ocdbt/format/btree.h>

#include <algorithm>

namespace cairn::inline v0::ocdbt {
namespace {

std::uint64_t divided_up(std::uint64_t a, std::uint64_t b) { return a / b + (a % b != 0); }

}  // namespace

std::size_t common_prefix_length(std::string_view a, std::string_view b) {
  return static_cast<std::size_t>(std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first -
                                  a.begin());
}

std::vector<std::size_t> split_entries(std::span<const std::uint64_t> sizes,
                                       const SplitLimits& limits) {
  std::vector<std::size_t> ends;
  std::uint64_t left = 0;  // sum of the sizes that are not in a node yet
  for (const auto size : sizes) left += size;
  for (std::size_t begin = 0; begin < sizes.size();) {
    const std::size_t count = sizes.size() - begin;
    const std::uint64_t all = left - (count - 1) * limits.shared_by_all;
    std::uint64_t nodes = divided_up(count, kMaxNodeEntries);
    if (limits.max_bytes > 0) nodes = std::max(nodes, divided_up(all, limits.max_bytes));
    const std::uint64_t target = divided_up(all, std::max<std::uint64_t>(nodes, 1));
    std::size_t end = begin + 1;
    std::uint64_t size = sizes[begin];
    const std::size_t most = begin + std::min(count, kMaxNodeEntries);
    while (end < most && (size < target || end - begin < limits.min_entries))
      size += sizes[end++] - limits.shared_by_all;
    // TensorStore removes an excess entry only if other entries follow.
    if (limits.max_bytes > 0 && size > limits.max_bytes && end - begin > limits.min_entries &&
        end < sizes.size())
      --end;
    for (; begin < end; ++begin) left -= sizes[begin];
    ends.push_back(end);
  }
  return ends;
}

}  // namespace cairn::inline v0::ocdbt
