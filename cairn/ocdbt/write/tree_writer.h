// tree_writer.h -- writes the nodes of a B+tree: a whole tree from sorted entries, or what changes
// of one that exists.
#pragma once

#include <cairn/ocdbt/format/manifest.h>
#include <cairn/ocdbt/read/versions.h>
#include <cairn/ocdbt/write/data_writer.h>
#include <cairn/ocdbt/write/entries.h>

#include <optional>
#include <span>
#include <string>
#include <vector>

namespace cairn::ocdbt {

// Where the root of a tree is; no location: the tree is empty.
struct TreeRoot {
  struct Location {
    std::uint32_t file = 0;  // number in the FileSet
    std::uint64_t offset = 0;
    std::uint64_t length = 0;
  };
  std::optional<Location> location;
  std::uint8_t height = 0;
  Statistics statistics;
};

// For one tree, on one thread. Nodes that do not change are referred to where they are.
class TreeWriter {
 public:
  // All of these must live as long as it does.
  TreeWriter(NodeReader& reader, FileSet& files, DataWriter& nodes, const Config& config)
      : reader_(reader), files_(files), nodes_(nodes), config_(config) {}

  // Applies the edits to the tree of that version; nullptr: to the empty one.
  TreeRoot write(const RootedVersion* old, const Edits& edits);

 private:
  // Edits of keys in one subtree, and the first key behind it.
  struct Part {
    std::span<const Edit> edits;
    std::optional<std::string_view> end;
  };

  template <class Entry>
  std::vector<ChildEntry> write_nodes(const std::vector<Entry>& entries, unsigned height,
                                      bool may_be_root);
  template <class Entry>
  ChildEntry write_node(std::span<const Entry> entries, unsigned height, bool is_root);
  template <class Entry>
  TreeRoot write_up(const std::vector<Entry>& entries, unsigned height);

  // What is left of a node; nullopt: it does not change.
  std::optional<std::vector<LeafEntry>> edit_leaf(const NodeExpectation& expected,
                                                  const LoadedNode& leaf, const Part& part);
  std::optional<std::vector<ChildEntry>> edit_interior(const NodeExpectation& expected,
                                                       const LoadedNode& node, const Part& part);
  // The nodes that take the place of a child; nullopt: it does not change.
  std::optional<std::vector<ChildEntry>> edit_child(const NodeExpectation& expected,
                                                    const Part& part);
  LeafEntry leaf_entry(const NodeExpectation& expected, const LoadedNode& leaf, std::size_t index);
  ChildEntry child_entry(const NodeExpectation& expected, const LoadedNode& node,
                         std::size_t index);
  [[nodiscard]] bool removes_some(std::string_view first,
                                  const std::optional<std::string_view>& end) const;
  [[nodiscard]] bool removes_all(std::string_view first,
                                 const std::optional<std::string_view>& end) const;
  std::uint32_t file_number(const LoadedNode& node, std::uint64_t index);

  NodeReader& reader_;
  FileSet& files_;
  DataWriter& nodes_;
  const Config& config_;
  std::span<const KeyRange> removed_;
  Arena arena_;
  std::vector<NodePtr> kept_;  // whose inline values are in use
};

// The entry of a leaf, with its whole key. `arena` keeps the key; the value stays in the leaf.
LeafEntry resolved_entry(const NodeExpectation& expected, const LoadedNode& leaf, std::size_t index,
                         FileSet& files, Arena& arena);

}  // namespace cairn::ocdbt
