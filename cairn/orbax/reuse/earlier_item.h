// earlier_item.h -- finds the item of an earlier checkpoint with which a new item shares values.
#pragma once

#include <cairn/orbax/reuse/shared_values.h>

#include <cstddef>
#include <memory>
#include <string>

namespace cairn::inline v0::orbax {

// What is written of the new item.
struct ItemTarget {
  std::string item;         // the path of the item
  std::string folder;       // of its files: the item itself, or the database of one process in it
  bool is_database = true;  // false: each chunk is a file
  std::size_t threads = 0;  // as in Resources
};

// Opens the earlier checkpoint at `from`, and there the item with the name of the new one, or else
// the only tree. The earlier item must be stored in the same way as the new one. Throws not_found,
// failed_precondition, data_loss: with a message that says why nothing can be shared.
std::unique_ptr<SharedValues> open_shared_values(const std::string& from, const ItemTarget& target);

}  // namespace cairn::inline v0::orbax
