// records.cc -- finds the items and files that a checkpoint records and lacks.
#include <cairn/orbax/layout/records.h>

#include <cairn/orbax/layout/item_kinds.h>

#include <algorithm>
#include <utility>

namespace cairn::inline v0::orbax {
namespace {

bool is_tree_item(const Item& item) { return item.kind == ItemKind::kPytree; }

// Whether an item of this handler appears as a tree among the items that are opened.
bool holds_arrays(std::string_view handler) {
  return is_tree_handler(handler) || is_random_key_handler(handler) || handler == kArrayHandler;
}

class LostParts {
 public:
  LostParts(Layout& layout, const std::string& aggregate_file)
      : layout_(layout),
        file_(join(layout.path, kCheckpointMetadataFile)),
        aggregate_file_(aggregate_file) {}

  void find() {
    if (layout_.metadata)
      for (const auto& [name, handler] : layout_.metadata->item_handlers) check(name, handler);
    check_keys();
    const bool has_records = layout_.metadata && !layout_.metadata->item_handlers.empty();
    const bool is_unreadable = layout_.metadata_error.has_value();
    if (!layout_.metadata && !is_unreadable && layout_.v1)
      add("", file_, file_,
          "is missing, though " + std::string(kV1Marker) + " marks a checkpoint of version 1",
          join(layout_.path, kV1Marker));
    else if (!has_records && !is_unreadable && std::ranges::none_of(layout_.items, is_tree_item))
      add("", layout_.path, layout_.path, "the checkpoint holds no item", file_);
  }

 private:
  void add(const std::string& item, const std::string& path, const std::string& file,
           std::string why, std::string record, bool is_tree = false) {
    layout_.lost.push_back({item, path, std::move(record), is_tree, file, std::move(why)});
  }

  void check(const std::string& name, const std::string& handler) {
    if (name.empty()) {
      check_tree("", layout_.path, handler, false);
      return check_files("", layout_.path, handler);
    }
    if (layout_.kind == LayoutKind::kDirect) return;
    const std::string folder = join(layout_.path, name);
    const auto item = std::ranges::find(layout_.items, name, &Item::name);
    if (item == layout_.items.end())
      return add(name, folder, file_,
                 "item '" + name + "' is recorded, but there is no folder of that name", file_,
                 holds_arrays(handler));
    check_tree(name, item->path, handler, !is_tree_item(*item));
    // The tree of an unfinished or a special item has another folder.
    check_files(name, item->kind == ItemKind::kOther ? item->path : folder, handler);
  }

  // The file that lists the leaves of a tree.
  void check_tree(const std::string& name, const std::string& folder, const std::string& handler,
                  bool nothing_left) {
    if (!is_tree_handler(handler)) return;
    const auto listed = try_call([&] { return list_directory(layout_.folder, folder); });
    if (!listed) return;  // opening the item says why
    if (listed.value().has_file(kTreeMetadataFile) || listed.value().has_file(aggregate_file_))
      return;
    const std::string file = join(folder, kTreeMetadataFile);
    add(name, file, file, "is missing, though a tree was saved here by " + handler, file_,
        nothing_left);
  }

  // Orbax's own handlers always write a file.
  void check_files(const std::string& name, const std::string& folder, const std::string& handler) {
    if (!handler.starts_with("orbax.") || is_tree_handler(handler)) return;
    const auto listed = try_call([&] { return list_directory(layout_.folder, folder); });
    if (!listed || !listed.value().folders.empty() ||
        !std::ranges::all_of(listed.value().files, is_marker))
      return;
    add(name, folder, folder,
        name.empty() ? "nothing is left of what was saved here by " + handler
                     : "the folder of item '" + name + "' is empty",
        file_, holds_arrays(handler));
  }

  static bool is_marker(std::string_view name) {
    return name == kCommitFile || name == kCheckpointMetadataFile || name == kV1Marker;
  }

  void check_keys() {
    if (layout_.kind != LayoutKind::kComposite) return;
    for (const Item& item : layout_.items) {
      if (is_tree_item(item) && item.note.empty()) continue;
      const std::string folder = is_tree_item(item) ? join(layout_.path, item.name) : item.path;
      const auto listed = try_call([&] { return list_directory(layout_.folder, folder); });
      if (!listed) continue;
      for (const std::string_view key : {kJaxRandomKeyFolder, kNumpyRandomKeyFolder})
        check_key(item, listed.value(), key);
    }
  }

  // A random key has a second folder, which states how to interpret the array in the first one.
  void check_key(const Item& item, const Listing& listing, std::string_view key) {
    const std::string description = std::string(key) + "_metadata";
    const std::string file = join(join(listing.path, description), kJsonItemFile);
    const std::string array = join(listing.path, key);
    if (!listing.has_folder(key) && !listing.has_folder(description)) return;
    if (!listing.has_folder(key))
      add(item.name, array, array, "the key's array is missing", "", true);
    if (!layout_.folder->exists(file))
      add(item.name, file, file, "is missing, so it is unknown how to restore the key", "");
  }

  Layout& layout_;
  std::string file_;
  const std::string& aggregate_file_;
};

}  // namespace

std::string lost_text(const LostPart& part) {
  return part.file + (part.why.starts_with("is ") ? " " : ": ") + part.why;
}

void read_records(Layout& layout) {
  const std::string file = join(layout.path, kCheckpointMetadataFile);
  if (layout.kind == LayoutKind::kZarr || !layout.folder->exists(file)) return;
  auto metadata = try_call([&] { return read_checkpoint_metadata(*layout.folder, file); });
  if (!metadata) {
    layout.metadata_error = metadata.error();
    return;
  }
  layout.metadata = std::move(metadata).value();
  const auto& handlers = layout.metadata->item_handlers;
  const bool is_one_tree = handlers.size() == 1 && handlers.front().first.empty() &&
                           is_tree_handler(handlers.front().second);
  if (!is_one_tree || layout.kind != LayoutKind::kComposite) return;
  layout.kind = LayoutKind::kDirect;
  layout.items = {Item{"", layout.path, ItemKind::kPytree, "", layout.folder}};
}

void find_lost_parts(Layout& layout, const std::string& aggregate_file) {
  if (layout.kind == LayoutKind::kZarr) return;
  LostParts(layout, aggregate_file).find();
}

}  // namespace cairn::inline v0::orbax
