// leaf_check.h -- which leaves of a copy are whole: every byte is read and checked.
#pragma once

#include <cairn/checkpoint.h>

#include <string>
#include <vector>

namespace cairn::inline v0 {

// What the check of one leaf has found.
struct LeafCheck {
  bool is_whole = false;
  bool is_checked = false;  // as RecoveredLeaf::is_checked
  // The record of its sharding is damaged or missing. The values are not affected.
  bool lacks_sharding = false;
  std::string why = {};  // why it is not whole
};
struct CopyCheck {
  std::vector<LeafCheck> leaves;  // parallel to tensors()
  std::vector<Finding> beside;    // damage that concerns no leaf
  // The file that lists the leaves is damaged: there may be others, under other names.
  bool is_tree_damaged = false;
};
// Checks everything that can be checked. Damage becomes a part of the result. Throws unavailable
// and cancelled.
CopyCheck check_copy(const Checkpoint& copy, const ProgressFn& progress);

// Reads a box of an array, in pieces of at most 64 MiB or one chunk. Returns why it cannot be read;
// "" if it can. Throws unavailable and cancelled.
std::string why_unreadable(const Checkpoint& copy, std::size_t index, const Box& box);

// The boxes of a damaged array that cannot be read, cut where its chunks end. An array that can be
// read, but is damaged, is lost as a whole, and so is one whose checksum covers all of it.
std::vector<Box> find_lost_boxes(const Checkpoint& copy, std::size_t index);

}  // namespace cairn::inline v0
