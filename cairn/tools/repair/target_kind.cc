#include <cairn/tools/repair/target_kind.h>

#include <cairn/base/text.h>
#include <cairn/formats/files/open_in_tree.h>
#include <cairn/formats/safetensors/header.h>
#include <cairn/formats/safetensors/model_folder.h>
#include <cairn/kvstore/folders/resolve.h>
#include <cairn/orbax/read/orbax_reader.h>
#include <cairn/tools/convert/kept_items.h>

#include <algorithm>

namespace cairn::inline v0 {

TargetFormat kind_of(const Checkpoint& checkpoint) {
  if (const auto orbax = stored_orbax_format(checkpoint)) return *orbax;
  const CheckpointInfo info = checkpoint.info();
  if (info.format == "safetensors") return TargetFormat::kSafetensors;
  if (info.format == "npz" || info.format == "npy") return TargetFormat::kNpz;
  if (info.format == "msgpack") return TargetFormat::kMsgpack;
  if (info.format == "tensorflow") return TargetFormat::kTensorFlow;
  return info.layout.starts_with("PyTorch Distributed") ? TargetFormat::kDcp : TargetFormat::kTorch;
}

std::optional<std::uint64_t> largest_shard(const Checkpoint& checkpoint,
                                           const StoreOptions& store) {
  const CheckpointInfo info = checkpoint.info();
  if (info.format != "safetensors") return std::nullopt;
  const auto largest = try_call([&]() -> std::optional<std::uint64_t> {
    const FileTree tree = tree_around(info.path, store);
    const bool is_folder = tree.is_folder(info.path);
    if (!is_folder && !is_index_name(info.path)) return std::nullopt;
    std::uint64_t most = 0;
    const std::string folder = is_folder ? info.path : parent_of(info.path);
    for (const std::string& name : tree.names_in(folder))
      if (name.ends_with(".safetensors"))
        most = std::max(most, tree.open(folder + "/" + name).size());
    return most == 0 ? std::nullopt : std::optional(most);
  });
  return largest ? largest.value() : std::nullopt;
}

std::vector<std::string> items_with(const Checkpoint& checkpoint, const std::string& file) {
  std::vector<std::string> names;
  const auto* orbax = dynamic_cast<const orbax::OrbaxCheckpoint*>(&checkpoint);
  if (orbax == nullptr) return names;
  for (const orbax::Item& item : orbax->layout().items)
    if (item.kind == orbax::ItemKind::kOther && !item.name.empty() &&
        (file == item.path || file.starts_with(item.path + "/")))
      names.push_back(item.name);
  return names;
}

}  // namespace cairn::inline v0
