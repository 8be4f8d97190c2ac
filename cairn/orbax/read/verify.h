// verify.h -- checks of one pytree item beyond its arrays' chunks: database, metadata files, and
// what belongs to nothing.
#pragma once

#include <cairn/checkpoint.h>
#include <cairn/orbax/layout/layout.h>
#include <cairn/orbax/read/pytree_item.h>
#include <cairn/verify_report.h>

#include <span>

namespace cairn::orbax {

// The leaves of one item.
struct ItemLeaves {
  std::span<const TensorInfo> tensors;
  std::span<const std::optional<zarr::ZarrArray>> stored;
  std::span<const LeafValue> values;
};

// A pytree item that could not be opened.
struct LostItem {
  Item item;
  Error error;
};

// Everything about `item` but the chunks. Goes on after damage; never throws for it.
void verify_item(const PytreeItem& item, const ItemLeaves& leaves, VerifyReport& report);

// Why the item cannot be opened, and what else is wrong with its database, if it has one.
void verify_lost_item(const LostItem& lost, VerifyReport& report);

// _CHECKPOINT_METADATA: whether all is there that it records; and the items that are not pytrees.
void verify_surroundings(const Layout& layout, VerifyReport& report);

}  // namespace cairn::orbax
