// kept_items.h -- which items of an Orbax checkpoint a conversion keeps, copies and leaves out.
#pragma once

#include <cairn/convert.h>
#include <cairn/orbax/commit/pending_checkpoint.h>
#include <cairn/orbax/read/orbax_reader.h>
#include <cairn/orbax/save/copied_item.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace cairn::inline v0 {

// The Orbax checkpoint that `checkpoint` is or is derived from; null if there is none.
const orbax::OrbaxCheckpoint* orbax_source(const Checkpoint& checkpoint);
// The opened pytree item that has the leaf; null if there is none.
const orbax::PytreeItem* item_of(const orbax::OrbaxCheckpoint& source, const TensorInfo& tensor);
// The format in which an Orbax source, or one of Zarr arrays, is stored; nullopt for other sources.
std::optional<TargetFormat> stored_orbax_format(const Checkpoint& source);
// What the source records beside its trees: metrics and custom metadata.
orbax::CheckpointContent content_of(const orbax::OrbaxCheckpoint& source);

// A pytree of the source that the target keeps.
struct KeptTree {
  std::string name = {};                 // in the target
  std::vector<std::size_t> leaves = {};  // numbers in the plan
  bool selected = false;                 // whether the options select any leaf
};
// The items of the target.
struct KeptItems {
  std::map<std::string, KeptTree> trees;  // by name in the source
  std::vector<orbax::CopiedItem> copies;
  std::uint64_t copied_bytes = 0;
  // True: each tree is stored as it was (OCDBT or folders, Zarr v2 or v3).
  bool as_stored = false;
};

// Decides about the items of an Orbax source that was opened as a whole, and adds what is selected
// but left out to the report. nullopt: the target is one tree. Throws data_loss for an item that
// cannot be read.
std::optional<KeptItems> choose_items(const Checkpoint& source, const ConvertOptions& options,
                                      bool is_orbax_target, ConvertReport& report);
// The tree that keeps a leaf of the source; null if the leaf belongs to an item that is copied.
KeptTree* tree_of(const Checkpoint& source, const TensorInfo& tensor, KeptItems& items);
// Called when the leaves of each tree are known: drops trees of which no leaf is written although
// they have leaves, names the others, and lists all items in the report. Throws invalid_argument if
// options.orbax.item names several trees, or a copy.
void finish_items(const Checkpoint& source, const ConvertOptions& options, KeptItems& items,
                  ConvertReport& report);

}  // namespace cairn::inline v0
