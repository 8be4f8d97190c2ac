// collected_item.cc -- turns the arrays and strings of type handlers into leaves to write.

#include <cairn/orbax/save/collected_item.h>

#include <algorithm>
#include <unordered_map>

namespace cairn::inline v0::orbax {
namespace {

void set_array(SaveLeaf& leaf, StoreArray&& array) {
  leaf.dtype = array.dtype;
  leaf.source_dtype = array.source_dtype;
  leaf.shape = std::move(array.shape);
  leaf.write_shape = std::move(array.write_shape);
  leaf.data = array.data;
  leaf.owner = std::move(array.owner);
  leaf.copy = std::move(array.copy);
  leaf.priority = array.priority;
  leaf.chunk_bytes = array.chunk_byte_size;
  leaf.shard_axes = std::move(array.shard_axes);
  leaf.write_chunk_shape = std::move(array.write_chunk_shape);
  leaf.read_chunk_shape = std::move(array.read_chunk_shape);
  leaf.metadata_key = std::move(array.metadata_key);
  leaf.sharding = std::move(array.sharding);
  leaf.random_key_impl = std::move(array.random_key_impl);
  leaf.in_replica_folder = array.in_replica_folder;
  if (!array.parts) return;
  leaf.parts.emplace();
  for (StorePart& part : *array.parts)
    leaf.parts->push_back({std::move(part.box), std::move(part.from)});
}

// Returns a leaf that is not part of the tree: a value that a handler stores under its own name.
SaveLeaf unlisted(std::string name, std::string kind) {
  SaveLeaf leaf;
  leaf.path = {{std::move(name), KeyType::kDict}};
  leaf.kind = std::move(kind);
  leaf.listed = false;
  return leaf;
}

}  // namespace

void CollectedItem::add_array(StoreArray array) {
  if (process_.count > 1 && array.device_array && !array.parts)
    throw Error(Code::kInvalidArgument, array.name +
                                            ": its type handler stores all of it in each of " +
                                            std::to_string(process_.count) +
                                            " processes; it must say which parts this one has");
  const std::lock_guard lock(mutex_);
  arrays_.push_back(std::move(array));
}

void CollectedItem::add_string(std::string name, std::string text) {
  const std::lock_guard lock(mutex_);
  strings_.emplace_back(std::move(name), std::move(text));
}

std::vector<SaveLeaf> CollectedItem::merge_into(std::vector<SaveLeaf> leaves) {
  const std::lock_guard lock(mutex_);
  // The positions of leaves that need a value, by name, last first.
  std::unordered_map<std::string, std::vector<std::size_t>> waiting;
  for (std::size_t i = leaves.size(); i-- > 0;)
    if (leaves[i].is_array() || leaves[i].kind == "string")
      waiting[param_name(leaves[i].path)].push_back(i);
  // Returns the leaf for a value, or appends a new leaf.
  const auto leaf_for = [&](const std::string& name, bool array) -> SaveLeaf& {
    const auto it = waiting.find(name);
    if (it != waiting.end() && !it->second.empty() &&
        leaves[it->second.back()].is_array() == array) {
      const std::size_t i = it->second.back();
      it->second.pop_back();
      return leaves[i];
    }
    return leaves.emplace_back(unlisted(name, array ? "np.ndarray" : "string"));
  };
  for (StoreArray& array : std::exchange(arrays_, {})) {
    SaveLeaf& leaf = leaf_for(array.name, true);
    if (!leaf.listed && array.device_array) leaf.kind = "jax.Array";
    set_array(leaf, std::move(array));
  }
  for (auto& [name, text] : strings_) leaf_for(name, false).text = std::move(text);
  for (const auto& [name, left] : waiting)
    if (!left.empty())
      throw Error(Code::kInvalidArgument,
                  name + ": its type handler stored no value, but its typestr '" +
                      leaves[left.back()].kind + "' says there is one");
  return leaves;
}

void CollectedItem::set_written() {
  done_ = true;
  promise_.set_value();
}

void CollectedItem::fail(std::exception_ptr error) {
  if (!std::exchange(done_, true)) promise_.set_exception(std::move(error));
}

}  // namespace cairn::inline v0::orbax
