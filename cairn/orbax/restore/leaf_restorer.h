// leaf_restorer.h -- stored leaves as values: from type handlers, all that have one in one call, or
// from the aggregate file.
#pragma once

#include <cairn/orbax/restore/pytree_restore.h>

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cairn::orbax {

// The empty node that a leaf of this type is; without rich types a named tuple is None.
std::optional<EmptyNode> empty_node_of(std::string_view kind, bool rich_types);

struct WantedLeaf {
  KeyPath path;              // in the result, in stored form
  std::size_t position = 0;  // among the stored ones
  AnyRestoreArgs args;
};

class LeafRestorer {
 public:
  LeafRestorer(std::shared_ptr<const StoredItem> item, const RestoreContext& context)
      : item_(std::move(item)), context_(context) {}

  // The values, in the order of `leaves`. Once.
  std::vector<TreeEntry> run(const std::vector<WantedLeaf>& leaves);

 private:
  struct Batch {
    TypeHandlerPtr handler;
    std::vector<ParamInfo> infos;
    std::vector<AnyRestoreArgs> args;
    std::vector<std::size_t> leaves;
  };
  std::string prepare(const std::vector<WantedLeaf>& leaves, std::vector<TreeEntry>& out);
  static void deserialize(const Batch& batch, std::vector<TreeEntry>& out);
  void add(const WantedLeaf& leaf, std::size_t number, TreeEntry& out);
  Batch& batch_of(const TypeHandlerPtr& handler);

  std::shared_ptr<const StoredItem> item_;
  const RestoreContext& context_;
  std::vector<Batch> batches_;
};

}  // namespace cairn::orbax
