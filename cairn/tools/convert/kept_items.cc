// kept_items.cc -- compares the items on disk with those that the options select.
#include <cairn/tools/convert/kept_items.h>

#include <cairn/base/text.h>
#include <cairn/orbax/layout/layout.h>
#include <cairn/orbax/layout/metadata.h>
#include <cairn/tools/source/capacity.h>
#include <cairn/tools/source/derived_checkpoint.h>
#include <cairn/tools/source/name_match.h>

#include <algorithm>
#include <array>

namespace cairn::inline v0 {
namespace {

using orbax::Item;
using orbax::ItemKind;
using orbax::Layout;

// Files of a step that each save writes anew.
constexpr std::array<std::string_view, 3> kStepMarks = {orbax::kCheckpointMetadataFile,
                                                        orbax::kCommitFile, orbax::kV1Marker};

// An item that only its own handler understands: JSON and the like, or a random key, whose pytree
// is a part of it.
bool is_copied(const Item& item) { return item.kind != ItemKind::kPytree || !item.note.empty(); }

bool is_selected(const std::string& name, const ConvertOptions& options) {
  return selects_item(options.include, options.exclude, name);
}

std::string folder_of(const Item& item) {
  return item.note.empty() ? item.path : parent_of(item.path);
}

bool is_opened(const orbax::OrbaxCheckpoint& source, const Item& item) {
  return std::ranges::any_of(source.opened_items(),
                             [&](const auto& opened) { return opened.item.name == item.name; });
}

// Whether the leaf stands for an item that cannot be opened.
bool is_lost_item(const TensorInfo& leaf) {
  return leaf.item && leaf.kind == LeafKind::kUnknown && leaf.name.empty() && !leaf.error.empty();
}

void add_copy(const Item& item, bool follow_links, KeptItems& kept) {
  orbax::CopiedItem copy{item.name, folder_of(item), item.folder, follow_links};
  // The copy has the holes of the files.
  for (const orbax::CopiedFile& file : orbax::list_files(copy))
    kept.copied_bytes = saturating_add(kept.copied_bytes, std::min(file.size, file.allocated));
  kept.copies.push_back(std::move(copy));
}

void note_stray_files(const Layout& layout, const ConvertOptions& options, ConvertReport& report) {
  for (const auto& [name, is_folder] : layout.folder->list(layout.path))
    if (!is_folder && std::ranges::find(kStepMarks, name) == kStepMarks.end() &&
        is_selected(name, options))
      report.left_out.emplace_back(name, "a file that belongs to no item");
}

// The folder of a training run was opened at its model.
void note_other_items(const CheckpointInfo& info, const ConvertOptions& options,
                      ConvertReport& report) {
  for (const std::string& item : info.items)
    if (item != name_of(info.path) && is_selected(item, options))
      report.left_out.emplace_back(item, "is not a part of the model; choose it with --item");
}

// The new names of the trees.
void name_trees(const ConvertOptions& options, KeptItems& kept) {
  if (!options.orbax.item) return;
  if (kept.trees.size() > 1) {
    std::string names;
    for (const auto& [name, tree] : kept.trees)
      names.append(names.empty() ? "'" : ", '").append(name).append("'");
    throw Error(Code::kInvalidArgument, "'" + *options.orbax.item +
                                            "' cannot be the name of several items: choose one "
                                            "with --item (OpenOptions::item): " +
                                            names);
  }
  for (auto& [name, tree] : kept.trees) tree.name = *options.orbax.item;
}

void keep(const orbax::OrbaxCheckpoint& source, const ConvertOptions& options, KeptItems& kept) {
  for (const Item& item : source.layout().items) {
    if (!is_copied(item) && is_opened(source, item))
      kept.trees.emplace(item.name, KeptTree{.name = item.name});
    else if (is_copied(item) && is_selected(item.name, options))
      add_copy(item, options.orbax.follow_links, kept);
  }
}

}  // namespace

const orbax::OrbaxCheckpoint* orbax_source(const Checkpoint& checkpoint) {
  const Checkpoint* at = &checkpoint;
  while (const auto* derived = dynamic_cast<const DerivedCheckpoint*>(at)) at = &derived->source();
  return dynamic_cast<const orbax::OrbaxCheckpoint*>(at);
}

const orbax::PytreeItem* item_of(const orbax::OrbaxCheckpoint& source, const TensorInfo& tensor) {
  const auto items = source.opened_items();
  const auto found = std::ranges::find_if(items, [&](const orbax::PytreeItem& item) {
    return !tensor.item || item.item.name == *tensor.item;
  });
  return found == items.end() ? nullptr : &*found;
}

std::optional<TargetFormat> stored_orbax_format(const Checkpoint& source) {
  const orbax::OrbaxCheckpoint* from = orbax_source(source);
  if (from == nullptr) return std::nullopt;
  const auto& items = from->opened_items();
  const auto in_folders = [](const orbax::PytreeItem& item) {
    return item.has_arrays ? item.storage == orbax::ArrayStorage::kFolders
                           : item.metadata.use_ocdbt == false;
  };
  const auto in_zarr3 = [](const orbax::PytreeItem& item) {
    return item.has_arrays ? item.zarr_format == 3 : item.metadata.use_zarr3;
  };
  if (std::ranges::any_of(items, in_folders)) return TargetFormat::kOrbaxFiles;
  return std::ranges::any_of(items, in_zarr3) ? TargetFormat::kOrbaxZarr3 : TargetFormat::kOrbax;
}

orbax::CheckpointContent content_of(const orbax::OrbaxCheckpoint& source) {
  orbax::CheckpointContent content;
  const Layout& layout = source.layout();
  const std::string file = orbax::join(layout.path, orbax::kCheckpointMetadataFile);
  if (!layout.folder->exists(file)) return content;
  // Orbax, too, treats metadata that cannot be read as absent.
  auto metadata = try_call([&] { return orbax::read_checkpoint_metadata(*layout.folder, file); });
  if (!metadata) return content;
  orbax::CheckpointMetadata found = std::move(metadata).value();
  content.metrics = std::move(found.metrics);
  content.performance_metrics = std::move(found.performance_metrics);
  if (!found.custom_metadata.is_null()) content.custom_metadata = to_text(found.custom_metadata);
  content.items = std::move(found.item_handlers);
  return content;
}

std::optional<KeptItems> choose_items(const Checkpoint& source, const ConvertOptions& options,
                                      bool is_orbax_target, ConvertReport& report) {
  const orbax::OrbaxCheckpoint* from = orbax_source(source);
  if (from == nullptr) note_other_items(source.info(), options, report);
  if (from == nullptr || from->layout().kind != orbax::LayoutKind::kComposite || !from->is_whole())
    return std::nullopt;
  for (const TensorInfo& leaf : from->tensors())
    if (is_lost_item(leaf) && is_selected(*leaf.item, {.exclude = options.exclude}))
      throw Error(leaf.error_code, orbax::join(from->layout().path, *leaf.item) + "/: " +
                                       leaf.error + "; leave the item out, or choose another one");
  note_stray_files(from->layout(), options, report);
  if (is_orbax_target) {
    KeptItems kept;
    keep(*from, options, kept);
    return kept;
  }
  for (const Item& item : from->layout().items)
    if (item.kind != ItemKind::kPytree && is_selected(item.name, options))
      report.left_out.emplace_back(item.name, "it is not a tree of arrays");
  return std::nullopt;
}

KeptTree* tree_of(const Checkpoint& source, const TensorInfo& tensor, KeptItems& items) {
  const orbax::OrbaxCheckpoint* from = orbax_source(source);
  const orbax::PytreeItem* item = from == nullptr ? nullptr : item_of(*from, tensor);
  const auto found = item == nullptr ? items.trees.end() : items.trees.find(item->item.name);
  return found == items.trees.end() ? nullptr : &found->second;
}

namespace {

// Drops trees of which no leaf is written, but keeps selected trees that have no leaves.
void drop_empty_trees(const Checkpoint& source, const ConvertOptions& options, KeptItems& items,
                      ConvertReport& report) {
  for (auto it = items.trees.begin(); it != items.trees.end();) {
    const bool has_leaves = std::ranges::any_of(source.tensors(), [&](const TensorInfo& tensor) {
      return tree_of(source, tensor, items) == &it->second;
    });
    if (!it->second.leaves.empty() || (!has_leaves && is_selected(it->first, options))) {
      ++it;
      continue;
    }
    if (it->second.selected)
      report.left_out.emplace_back(it->first, "none of its leaves can be kept");
    it = items.trees.erase(it);
  }
}

}  // namespace

void finish_items(const Checkpoint& source, const ConvertOptions& options, KeptItems& items,
                  ConvertReport& report) {
  drop_empty_trees(source, options, items, report);
  name_trees(options, items);
  for (const auto& [name, tree] : items.trees) report.items.push_back(tree.name);
  for (const orbax::CopiedItem& item : items.copies) report.items.push_back(item.name);
  std::sort(report.items.begin(), report.items.end());
  const auto twice = std::adjacent_find(report.items.begin(), report.items.end());
  if (twice != report.items.end())
    throw Error(Code::kInvalidArgument, "two items would be named '" + *twice + "'");
}

}  // namespace cairn::inline v0
