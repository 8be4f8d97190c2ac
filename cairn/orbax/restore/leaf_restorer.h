// leaf_restorer.h -- restores stored leaves to values. It calls each type handler once with all
// leaves of that handler, or reads a value from the aggregate file.
#pragma once

#include <cairn/orbax/restore/pytree_restore.h>

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cairn::inline v0::orbax {

// Returns the empty node that a leaf of this type represents, or nullopt. Without rich types a
// named tuple is None.
std::optional<EmptyNode> empty_node_of(std::string_view kind, bool rich_types);

// Returns the value of a leaf whose value is in the aggregate file; nullopt for any other leaf. A
// string beside `_METADATA` counts as another leaf: its type handler finds the value.
std::optional<Tree> aggregated_value(const PytreeItem& item, std::size_t position);
// Converts such a value and places it on devices as the arguments request.
Tree with_restore_args(Tree value, const AnyRestoreArgs& args);

// One leaf to restore.
struct WantedLeaf {
  KeyPath path;              // the path in the result, in stored form
  std::size_t position = 0;  // the position among the stored leaves
  AnyRestoreArgs args;
};

// Restores a list of leaves of one item.
class LeafRestorer {
 public:
  LeafRestorer(std::shared_ptr<const StoredItem> item, const RestoreContext& context)
      : item_(std::move(item)), context_(context) {}

  // Returns the values in the order of `leaves`. Call it once.
  std::vector<TreeEntry> run(const std::vector<WantedLeaf>& leaves);

 private:
  // All leaves of one type handler.
  struct Batch {
    TypeHandlerPtr handler;
    std::vector<ParamInfo> infos;
    std::vector<AnyRestoreArgs> args;
    std::vector<std::size_t> leaves;
  };
  std::string prepare(const std::vector<WantedLeaf>& leaves, std::vector<TreeEntry>& out);
  // Calls the handler of the batch and stores the values in `out`.
  static void deserialize(const Batch& batch, std::vector<TreeEntry>& out);
  // Adds a leaf to the batch of its handler, or restores it directly to `out`.
  void add(const WantedLeaf& leaf, std::size_t number, TreeEntry& out);
  // Returns the batch of a handler; creates it on first use.
  Batch& batch_of(const TypeHandlerPtr& handler);

  std::shared_ptr<const StoredItem> item_;
  const RestoreContext& context_;
  std::vector<Batch> batches_;
};

}  // namespace cairn::inline v0::orbax
