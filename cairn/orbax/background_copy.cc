// background_copy.cc -- adds up the arrays of a tree.
#include <cairn/orbax/background_copy.h>

#include <cairn/array/byte_count.h>
#include <cairn/orbax/sharding.h>

#include <algorithm>

namespace cairn::inline v0::orbax {
namespace {

// Of the shards with equal values, one is copied.
std::uint64_t bytes_of(const ShardedArray& array) {
  std::uint64_t shards = 0;
  for (const ArrayShard& shard : array.shards) shards += byte_count(shard.box.shape, array.dtype);
  return std::min(shards, byte_count(array.shape, array.dtype));
}

}  // namespace

std::uint64_t bytes_to_copy(const Tree& tree, const IsPrioritizedKeyFn& is_prioritized) {
  std::uint64_t bytes = 0;
  for (const TreeEntry& entry : flatten(tree)) {
    if (const Array* array = entry.value.array()) bytes += array->bytes().size();
    const auto* sharded = entry.value.custom<ShardedArray>();
    if (sharded != nullptr && (!is_prioritized || is_prioritized(entry.path)))
      bytes += bytes_of(*sharded);
  }
  return bytes;
}

}  // namespace cairn::inline v0::orbax
