// tensor_slot.h -- the key and slice of a tensor, as a key of hash tables.
#pragma once

#include <cairn/base/hash.h>

#include <functional>
#include <string_view>

namespace cairn::inline v0 {

// A tensor's checkpoint key and slice spec. The owner of the strings outlives it.
struct TensorSlot {
  std::string_view key, slice_spec;
  bool operator==(const TensorSlot&) const = default;
};
struct TensorSlotHash {
  std::size_t operator()(const TensorSlot& slot) const {
    const std::hash<std::string_view> hash;
    return splitmix64(hash(slot.key)) ^ hash(slot.slice_spec);
  }
};

}  // namespace cairn::inline v0
