// verify.h -- verifies one pytree item except for the chunks of its arrays: the database, the
// metadata files, and entries that belong to no array.
#pragma once

#include <cairn/checkpoint.h>
#include <cairn/orbax/layout/layout.h>
#include <cairn/orbax/read/pytree_item.h>
#include <cairn/verify_report.h>

#include <span>

namespace cairn::inline v0::orbax {

// The leaves of one item, as three parallel spans.
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

// Verifies everything in `item` except the chunks. Adds findings to `report`, continues after
// damage, and never throws because of damage.
void verify_item(const PytreeItem& item, const ItemLeaves& leaves, VerifyReport& report);

// Verifies the documents of groups and the attributes of a Zarr hierarchy. Other items have none.
void verify_groups(const PytreeItem& item, VerifyReport& report);

// Reports why the item cannot be opened, and verifies its database if it has one.
void verify_lost_item(const LostItem& lost, VerifyReport& report);

// Verifies the metadata file of a root of steps, if there is one. No restore reads it.
void verify_root_metadata(const FolderHandle& root, VerifyReport& report);

// Verifies the root's metadata, that all items recorded in _CHECKPOINT_METADATA exist, and the items
// that are not pytrees.
void verify_surroundings(const Layout& layout, VerifyReport& report);

}  // namespace cairn::inline v0::orbax
