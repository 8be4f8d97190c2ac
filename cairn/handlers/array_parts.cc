// array_parts.cc -- pieces of shards as parts to be stored.
#include <cairn/base/box.h>
#include <cairn/handlers/array_parts.h>

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

namespace cairn::handlers {
namespace {

// The piece where it lies in memory; null if it does not, or if what is said of that memory does not fit, which copying will refuse.
ArrayView in_memory(const ShardedArray& array, const ArrayShard& shard, const Box& piece) {
  const auto* memory = std::get_if<HostMemory>(&shard.source);
  if (memory == nullptr || memory->view.shape != shard.box.shape || memory->view.dtype != array.dtype) return {};
  return subview(memory->view, relative_to(piece, shard.box.origin));
}

}  // namespace

void check_not_host_local(const ShardedArray& array, std::size_t processes) {
  if (array.shards.size() < device_boxes(array.sharding, array.shape).size()) return;
  throw Error(Code::kInvalidArgument, "all of its devices are this process's (a host-local array), but " + std::to_string(processes) +
                                          " processes save together: spread it over the devices of all, or save a host array");
}

bool looks_replicated(const Sharding& sharding) {
  if (std::holds_alternative<SingleDeviceSharding>(sharding)) return true;
  const auto* named = std::get_if<NamedSharding>(&sharding);
  if (named == nullptr) return false;
  return named->mesh.shape.size() > named->spec.size() || named->spec.empty() ||
         std::any_of(named->spec.begin(), named->spec.end(), [](const auto& axes) { return axes.empty(); });
}

void set_parts(StoreArray& store, const ShardedArray& array, std::span<const std::optional<Box>> pieces, bool copy_now) {
  // The shards that give something, alone: copying a part looks through all that are there.
  const auto kept = std::make_shared<ShardedArray>();
  kept->shape = array.shape;
  kept->dtype = array.dtype;
  const auto copies = std::make_shared<std::vector<Array>>();
  store.parts.emplace();
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    if (!pieces[i]) continue;
    StorePart part{.box = *pieces[i], .from = {}};
    ShardedArray one;
    if (copy_now) {
      one.shape = array.shape;
      one.dtype = array.dtype;
      one.shards = {array.shards[i]};
      Array copy = Array::allocate(array.dtype, part.box.shape);
      copy_box(one, part.box, copy.mutable_view());
      part.from = copies->emplace_back(std::move(copy)).view();
    } else {
      part.from = in_memory(array, array.shards[i], part.box);
      kept->shards.push_back(array.shards[i]);
    }
    store.parts->push_back(std::move(part));
  }
  if (copy_now) {
    store.owner = copies;
    return;
  }
  store.owner = kept;
  store.copy = [kept](const Box& part, const MutableArrayView& out) { copy_box(*kept, part, out); };
}

}  // namespace cairn::handlers
