// copied_tree.cc -- allocates the copies, then fills them in parallel.
#include <cairn/tools/dcp/copied_tree.h>

#include <cairn/bytes.h>
#include <cairn/orbax/sharding.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <functional>
#include <variant>
#include <vector>

namespace cairn::inline v0 {
namespace {

constexpr std::size_t kTaskBytes = std::size_t{64} << 20U;

class TreeCopier {
 public:
  Tree copy(const Tree& leaf) {
    if (const Array* array = leaf.array()) return Tree(copy_of(*array));
    const auto* sharded = leaf.custom<ShardedArray>();
    return sharded == nullptr ? leaf : Tree(copy_of(*sharded));
  }
  void fill(Executor& executor) const {
    executor.for_each(fills_.size(), [&](std::size_t i) { fills_[i](); });
  }

 private:
  Array copy_of(const Array& array) {
    Array made = Array::allocate(array.dtype(), array.element_size(), array.shape());
    std::byte* const to = made.mutable_view().data;
    const ByteView from = array.bytes();
    for (std::size_t at = 0; at < from.size(); at += kTaskBytes)
      fills_.emplace_back([to, from, at] {
        std::memcpy(to + at, from.data() + at, std::min(kTaskBytes, from.size() - at));
      });
    return made;
  }
  ShardedArray copy_of(const ShardedArray& array) {
    ShardedArray made = array;
    for (ArrayShard& shard : made.shards) {
      if (shard.replica == 0 && !std::holds_alternative<std::monostate>(shard.source))
        shard.source = copy_of(array, shard);
      else
        shard.source = std::monostate();
    }
    return made;
  }
  HostMemory copy_of(const ShardedArray& array, const ArrayShard& shard) {
    Array made = Array::allocate(array.dtype, shard.box.shape);
    const MutableArrayView to = made.mutable_view();
    fills_.emplace_back([&array, box = shard.box, to] { copy_box(array, box, to); });
    return {made.view(), made.owner()};
  }

  std::vector<std::function<void()>> fills_;
};

}  // namespace

Tree copied_tree(const Tree& tree, Executor& executor) {
  TreeCopier copier;
  Tree copied = map_leaves(
      tree, [&](const KeyPath& /*path*/, const Tree& leaf) { return copier.copy(leaf); });
  copier.fill(executor);
  return copied;
}

}  // namespace cairn::inline v0
