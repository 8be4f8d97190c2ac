// save.h -- saves a whole checkpoint with one item, for leaves from any source.
#pragma once

#include <cairn/distributed.h>
#include <cairn/orbax/save/item_writer.h>

#include <string>

namespace cairn::inline v0::orbax {

// Saves one item, as cairn::save_orbax does. The custom metadata comes from the item and not from
// the options. If several processes save together, each writes its share of the leaves.
void save_item(const std::string& path, SaveItem item, const SaveOptions& options,
               const MultiprocessingOptions& job = {});

}  // namespace cairn::inline v0::orbax
