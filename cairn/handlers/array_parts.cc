// array_parts.cc -- makes the pieces of shards the parts to store.
#include <cairn/handlers/array_parts.h>

#include <cairn/array/box.h>

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

namespace cairn::inline v0::handlers {
namespace {

// A view of the piece in memory. Null if the shard is not in memory, or if its memory has another
// shape or type, which copying refuses later.
ArrayView in_memory(const ShardedArray& array, const ArrayShard& shard, const Box& piece) {
  const auto* memory = std::get_if<HostMemory>(&shard.source);
  if (memory == nullptr || memory->view.shape != shard.box.shape ||
      memory->view.dtype != array.dtype)
    return {};
  return subview(memory->view, relative_to(piece, shard.box.origin));
}

}  // namespace

void check_not_host_local(const ShardedArray& array, std::size_t processes) {
  if (array.shards.size() < device_count(array.sharding)) return;
  throw Error(Code::kInvalidArgument,
              "all of its devices belong to this process (a host-local array), but " +
                  std::to_string(processes) +
                  " processes save together; spread it over devices of several processes, or save "
                  "a host array");
}

bool looks_replicated(const Sharding& sharding) {
  if (std::holds_alternative<SingleDeviceSharding>(sharding)) return true;
  const auto* named = std::get_if<NamedSharding>(&sharding);
  if (named == nullptr) return false;
  return named->mesh.shape.size() > named->spec.size() || named->spec.empty() ||
         std::any_of(named->spec.begin(), named->spec.end(),
                     [](const auto& axes) { return axes.empty(); });
}

void set_parts(StoreArray& store, const ShardedArray& array,
               std::span<const std::optional<Box>> pieces, bool copy_now) {
  // Keeps the memory that the parts point to. `copied` has only the shards that are copied later,
  // because copying searches all shards it is given.
  struct Kept {
    std::vector<std::shared_ptr<const void>> memory;
    ShardedArray copied;
  };
  const auto kept = std::make_shared<Kept>();
  kept->copied.shape = array.shape;
  kept->copied.dtype = array.dtype;
  store.parts.emplace();
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    if (!pieces[i] || pieces[i]->empty()) continue;
    const ArrayShard& shard = array.shards[i];
    StorePart part{.box = *pieces[i], .from = {}};
    if (copy_now) {
      const auto copy = std::make_shared<Array>(Array::allocate(array.dtype, part.box.shape));
      copy_box({.shape = array.shape, .dtype = array.dtype, .sharding = {}, .shards = {shard}},
               part.box, copy->mutable_view());
      part.from = copy->view();
      kept->memory.push_back(copy);
    } else if (part.from = in_memory(array, shard, part.box); part.from.data != nullptr) {
      if (const auto& owner = std::get<HostMemory>(shard.source).owner)
        kept->memory.push_back(owner);
    } else {
      kept->copied.shards.push_back(shard);
    }
    store.parts->push_back(std::move(part));
  }
  if (!kept->memory.empty()) store.owner = kept;
  if (!kept->copied.shards.empty())
    store.copy = [kept](const Box& part, const MutableArrayView& out) {
      copy_box(kept->copied, part, out);
    };
}

}  // namespace cairn::inline v0::handlers
