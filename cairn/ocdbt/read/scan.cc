// scan.cc -- lists keys. It reads the tree level by level, so that the nodes of a level can be read
// in parallel.
#include <cairn/ocdbt/read/scan.h>

#include <cairn/base/executor.h>
#include <cairn/base/memory/name_budget.h>

#include <algorithm>
#include <atomic>
#include <set>
#include <tuple>

namespace cairn::inline v0::ocdbt {
namespace {

struct LevelNode {
  NodeExpectation expected;
  NodePtr node;
};
using Level = std::vector<LevelNode>;

// Limits the work for hostile trees. A tree may reach one node by many paths and give short keys
// long prefixes, so that a small file lists without end. Therefore the output of a pass, and the
// keys that it holds, are compared with the stored size of the distinct nodes it reads.
class WorkLimit {
 public:
  // Call before the nodes of the level are read.
  void add_nodes(const Level& level) {
    for (const auto& [expected, node] : level)
      if (seen_.insert({expected.place.file.path, expected.place.offset, expected.height}).second)
        stored_ += expected.place.length;
  }
  // Call for each node that was read, from any thread.
  void add_keys_of(const BtreeNode& node) {
    check_name_budget(in_nodes_ += node.keys.bytes(), stored_);
  }
  void add_output(std::size_t bytes) {
    check_expansion(output_ += bytes, stored_, "listing the b+tree");
  }
  void add_full_keys(std::size_t bytes) { check_name_budget(full_keys_ += bytes, stored_); }

 private:
  std::set<std::tuple<std::string, std::uint64_t, std::uint8_t>> seen_;
  // all in bytes
  std::uint64_t stored_ = 0;
  std::atomic<std::uint64_t> in_nodes_ = 0;  // the keys, without the prefixes of their nodes
  std::uint64_t output_ = 0;
  std::uint64_t full_keys_ = 0;
};

void load_level(NodeReader& reader, Level& level, WorkLimit& limit) {
  limit.add_nodes(level);
  const auto load = [&](std::size_t i) {
    level[i].node = reader.load(level[i].expected);
    limit.add_keys_of(level[i].node->node);
  };
  if (level.size() == 1)
    load(0);  // a typical checkpoint is one node: no reason to start threads
  else if (!level.empty())
    reader.executor().for_each(level.size(), load);
}

bool may_hold(std::string_view node_prefix, std::string_view wanted) {
  const std::size_t n = std::min(node_prefix.size(), wanted.size());
  return node_prefix.substr(0, n) == wanted.substr(0, n);
}

// Returns the start that keys in a node with this prefix must have. may_hold must be true.
std::string_view rest_of(std::string_view wanted, std::string_view node_prefix) {
  return wanted.substr(std::min(node_prefix.size(), wanted.size()));
}

Level children_of(const Level& level, std::string_view prefix, WorkLimit& limit) {
  Level children;
  for (const auto& [expected, loaded] : level) {
    const KeyList& keys = loaded->node.keys;
    const auto [first, last] = keys.with_prefix(rest_of(prefix, expected.prefix));
    // The child before the first key with the prefix holds keys up to that key, so it may contain
    // keys with the prefix.
    for (std::size_t i = first == 0 ? 0 : first - 1; i < last; ++i) {
      LevelNode child{.expected = expect_child(*loaded, expected, i), .node = nullptr};
      if (!may_hold(child.expected.prefix, prefix)) continue;
      limit.add_output(sizeof(child) + child.expected.prefix.size() + keys[i].size());
      children.push_back(std::move(child));
    }
  }
  return children;
}

std::vector<ListEntry> entries_of(const Level& leaves, std::string_view prefix, WorkLimit& limit) {
  struct Part {
    std::size_t first = 0, last = 0, begin = 0;
  };
  std::vector<Part> parts;
  std::size_t total = 0;
  for (const auto& [expected, loaded] : leaves) {
    const auto [first, last] = loaded->node.keys.with_prefix(rest_of(prefix, expected.prefix));
    limit.add_output((last - first) * (sizeof(ListEntry) + expected.prefix.size()) +
                     loaded->node.keys.bytes());
    for (std::size_t i = first; i < last; ++i)
      limit.add_full_keys(expected.prefix.size() + loaded->node.keys[i].size());
    parts.push_back({.first = first, .last = last, .begin = total});
    total += last - first;
  }
  std::vector<ListEntry> entries(total);
  for (std::size_t p = 0; p < parts.size(); ++p) {
    const BtreeNode& node = leaves[p].node->node;
    const std::string& node_prefix = leaves[p].expected.prefix;
    for (std::size_t i = parts[p].first; i < parts[p].last; ++i) {
      ListEntry& entry = entries[parts[p].begin + i - parts[p].first];
      const std::string_view key = node.keys[i];
      entry.key.reserve(node_prefix.size() + key.size());
      entry.key.append(node_prefix).append(key);
      entry.size = node.values[i].length;
    }
  }
  return entries;
}

// Returns the leaves that may contain keys with the prefix.
Level leaf_level(NodeReader& reader, const NodeExpectation& root, std::string_view prefix,
                 WorkLimit& limit) {
  Level level;
  level.push_back({.expected = root, .node = nullptr});
  load_level(reader, level, limit);
  for (unsigned height = root.height; height > 0; --height) {
    level = children_of(level, prefix, limit);
    load_level(reader, level, limit);
  }
  return level;
}

}  // namespace

std::vector<ListEntry> list_keys(NodeReader& reader, const NodeExpectation& root,
                                 std::string_view prefix) {
  WorkLimit limit;
  return entries_of(leaf_level(reader, root, prefix, limit), prefix, limit);
}

std::vector<LeafAt> load_leaves(NodeReader& reader, const NodeExpectation& root) {
  WorkLimit limit;
  Level level = leaf_level(reader, root, {}, limit);
  std::vector<LeafAt> leaves;
  leaves.reserve(level.size());
  for (auto& [expected, node] : level) {
    limit.add_output(node->node.keys.size() * expected.prefix.size() + node->node.keys.bytes());
    leaves.push_back({.expected = std::move(expected), .leaf = std::move(node)});
  }
  return leaves;
}

}  // namespace cairn::inline v0::ocdbt
