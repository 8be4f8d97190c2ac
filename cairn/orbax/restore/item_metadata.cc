// item_metadata.cc -- reads the metadata of an item without its values.
#include <cairn/io/file.h>
#include <cairn/orbax/layout/layout.h>
#include <cairn/orbax/layout/metadata.h>
#include <cairn/orbax/restore/pytree_restore.h>

#include <map>
#include <unordered_map>
#include <utility>

namespace cairn::inline v0::orbax {
namespace {

// Returns the shapes of the pieces in which device arrays were written. Some versions of Orbax
// record them with the tree, others in separate files.
std::unordered_map<std::string, Shape> write_shapes(const Item& item) {
  std::unordered_map<std::string, Shape> out;
  const std::string folder = join(item.path, kArrayMetadataFolder);
  const Listing listing = list_directory(item.folder, folder);
  if (listing.files.empty()) return out;
  const Buffer text = item.folder->read_text(join(folder, listing.files.front()), kMaxMetadataFile);
  for (StoredArrayMetadata& array : parse_array_metadatas(as_text(text)))
    out.emplace(std::move(array.name), std::move(array.write_shape));
  return out;
}

}  // namespace

PyTreeMetadata item_metadata(const std::string& directory, const RestoreContext& context) {
  const std::shared_ptr<const StoredItem> stored = open_stored_item(directory, context);
  const PytreeItem& item = stored->item();
  if (item.structure != Structure::kTreeMetadata)
    throw Error(Code::kNotFound, directory + ": has no " + std::string(kTreeMetadataFile) +
                                     ", which records the types of the leaves");
  const auto shapes = write_shapes(item.item);
  // Groups all leaves of one handler into one call.
  std::map<std::string, std::pair<std::vector<ParamInfo>, std::vector<std::size_t>>> batches;
  for (std::size_t i = 0; i < item.tensors.size(); ++i) {
    const TensorInfo& leaf = item.tensors[i];
    if (is_empty_node_type(leaf.typestr) || leaf.typestr == "placeholder") continue;
    ParamInfo info = stored_param_info(stored, leaf, context);
    if (const auto it = shapes.find(leaf.name); it != shapes.end()) info.write_shape = it->second;
    auto& [infos, positions] = batches[leaf.typestr];
    infos.push_back(std::move(info));
    positions.push_back(i);
  }
  std::vector<ValueMetadata> values(item.tensors.size());
  for (auto& [typestr, batch] : batches) {
    std::vector<ValueMetadata> described = context.registry->get(typestr)->metadata(batch.first);
    for (std::size_t i = 0; i < described.size(); ++i)
      values[batch.second[i]] = std::move(described[i]);
  }
  PyTreeMetadata out;
  out.custom_metadata = item.metadata.custom_metadata;
  out.use_zarr3 = item.metadata.use_zarr3;
  out.tree = map_leaves(
      stored_tree(item, context.options->pytree_metadata_options.support_rich_types),
      [&](const KeyPath& /*path*/, const Tree& leaf) {
        const auto* position = leaf.custom<std::size_t>();
        return position == nullptr ? leaf : Tree(CustomLeaf::of(std::move(values[*position])));
      });
  return out;
}

}  // namespace cairn::inline v0::orbax
