// tree_writer.h -- writes the nodes of a B+tree: a whole tree from sorted entries, or the changed
// nodes of an existing tree.
#pragma once

#include <cairn/ocdbt/format/manifest.h>
#include <cairn/ocdbt/read/versions.h>
#include <cairn/ocdbt/write/data_writer.h>
#include <cairn/ocdbt/write/entries.h>

#include <optional>
#include <span>
#include <string>
#include <vector>

namespace cairn::inline v0::ocdbt {

// The root of a tree; without a location the tree is empty.
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

// Writes one tree, on one thread. Refers to unchanged nodes in their old files.
class TreeWriter {
 public:
  // All references must outlive this object.
  TreeWriter(NodeReader& reader, FileSet& files, DataWriter& nodes, const Config& config)
      : reader_(reader), files_(files), nodes_(nodes), config_(config) {}

  // Applies the edits to the tree of version `old`; null: to the empty tree. Returns the new root.
  TreeRoot write(const RootedVersion* old, const Edits& edits);

 private:
  // The edits of keys in one subtree, and the first key after the subtree.
  struct Part {
    std::span<const Edit> edits;
    std::optional<std::string_view> end;
  };

  // Write a level of nodes, one node, or all levels above these entries.
  template <class Entry>
  std::vector<ChildEntry> write_nodes(const std::vector<Entry>& entries, unsigned height,
                                      bool may_be_root);
  template <class Entry>
  ChildEntry write_node(std::span<const Entry> entries, unsigned height, bool is_root);
  template <class Entry>
  TreeRoot write_up(const std::vector<Entry>& entries, unsigned height);

  // Return the remaining entries of a node; nullopt if the node does not change.
  std::optional<std::vector<LeafEntry>> edit_leaf(const NodeExpectation& expected,
                                                  const LoadedNode& leaf, const Part& part);
  std::optional<std::vector<ChildEntry>> edit_interior(const NodeExpectation& expected,
                                                       const LoadedNode& node, const Part& part);
  // Returns the nodes that replace a child; nullopt if the child does not change.
  std::optional<std::vector<ChildEntry>> edit_child(const NodeExpectation& expected,
                                                    const Part& part);
  // Return the entry number `index` of a node with its whole key.
  LeafEntry leaf_entry(const NodeExpectation& expected, const LoadedNode& leaf, std::size_t index);
  ChildEntry child_entry(const NodeExpectation& expected, const LoadedNode& node,
                         std::size_t index);
  // Return whether the removed ranges contain some, or all, keys from `first` to `end`.
  [[nodiscard]] bool removes_some(std::string_view first,
                                  const std::optional<std::string_view>& end) const;
  [[nodiscard]] bool removes_all(std::string_view first,
                                 const std::optional<std::string_view>& end) const;
  // Returns the number in files_ of a file in the node's table.
  std::uint32_t file_number(const LoadedNode& node, std::uint64_t index);

  NodeReader& reader_;
  FileSet& files_;
  DataWriter& nodes_;
  const Config& config_;
  std::span<const KeyRange> removed_;
  Arena arena_;
  std::vector<NodePtr> kept_;  // nodes whose inline values are in use
};

// Returns entry number `index` of a leaf with its whole key. `arena` holds the key; the value stays
// in the leaf.
LeafEntry resolved_entry(const NodeExpectation& expected, const LoadedNode& leaf, std::size_t index,
                         FileSet& files, Arena& arena);

}  // namespace cairn::inline v0::ocdbt
