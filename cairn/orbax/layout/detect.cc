#include <cairn/orbax/layout/detect.h>

#include <cairn/base/errors.h>
#include <cairn/orbax/layout/item_kinds.h>
#include <cairn/orbax/layout/unfinished.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <utility>

namespace cairn::inline v0::orbax {
namespace {

namespace fs = std::filesystem;

// The maximum number of folders that a search for arrays visits in a directory without metadata.
constexpr std::size_t kMaxFoldersLookedAt = 2000;

bool has_array_metadata(const Listing& listing) {
  return listing.has_file(".zarray") || listing.has_file("zarr.json");
}

// The aggregate file is a msgpack map. TensorFlow keeps a text file of the same name, which starts
// with a letter. Any other content is treated as a damaged map: ignoring the file would silently
// lose the values in it.
bool has_aggregate(const Listing& listing) {
  if (!listing.has_file(kAggregateFile)) return false;
  const auto first = try_call([&] {
    std::byte byte{};
    listing.folder->open_file(join(listing.path, kAggregateFile))
        .read_into(0, MutableByteView(&byte, 1));
    return std::to_integer<char>(byte);
  });
  return !first || first.value() < 'a' || first.value() > 'z';
}

// Returns true if the folder contains a file that marks it as a pytree.
bool is_marked_item(const Listing& listing) {
  return listing.has_file(kTreeMetadataFile) || listing.has_file(kManifestFile) ||
         has_aggregate(listing) || has_process_database(listing);
}

bool is_marked_checkpoint(const Listing& listing) {
  return listing.has_file(kCheckpointMetadataFile) || listing.has_file(kV1Marker);
}

bool holds_distributed(const Listing& listing) {
  return std::ranges::any_of(listing.files, [](const std::string& name) {
    return name == kDistributedFile || name.ends_with(kDistributedDataEnding);
  });
}

// A random key item stores its array one folder level deeper.
std::optional<Item> random_key_item(const Item& item, const Listing& listing) {
  for (const auto& [folder, note] : {std::pair{kJaxRandomKeyFolder, "JAX random key"},
                                     std::pair{kNumpyRandomKeyFolder, "NumPy random state"}})
    for (const auto& name : listing.folders)
      if (without_temporary_mark(name) == folder)
        return Item{item.name, join(item.path, name), ItemKind::kPytree, note, listing.folder};
  return std::nullopt;
}

bool holds_only_folders(const Listing& listing) {
  return std::all_of(listing.files.begin(), listing.files.end(),
                     [](const auto& name) { return name == kCommitFile; });
}

Item look_at_item(const Listing& above, const std::string& name) {
  Item item{without_temporary_mark(name), join(above.path, name), ItemKind::kOther, "",
            above.folder};
  const auto listed = try_call([&] { return list_below(above, name); });
  if (!listed) {
    // This may be a pytree. Opening the item reports why the folder cannot be listed, and the other
    // items can still be opened.
    item.kind = ItemKind::kPytree;
    return item;
  }
  const Listing& listing = listed.value();
  if (is_marked_item(listing)) {
    item.kind = ItemKind::kPytree;
  } else if (auto key = random_key_item(item, listing)) {
    return *std::move(key);
  } else if (holds_only_folders(listing) && has_arrays_below(listing)) {
    // The item has only parameter folders: it is of the oldest kind, or its metadata is missing.
    item.kind = ItemKind::kPytree;
  }
  return item;
}

std::vector<Item> look_at_items(const Listing& listing) {
  std::vector<Item> items;
  for (const auto& name : listing.folders) items.push_back(look_at_item(listing, name));
  return items;
}

}  // namespace

bool has_process_database(const Listing& listing) {
  const auto is_database = [&](const std::string& name) {
    if (!name.starts_with(kProcessPrefix)) return false;
    const auto listed = try_call([&] { return list_below(listing, name); });
    if (!listed) return true;
    const auto& [path, files, folders, handle] = listed.value();
    return std::ranges::all_of(files, [](const auto& n) { return is_database_entry(n, false); }) &&
           std::ranges::all_of(folders, [](const auto& n) { return is_database_entry(n, true); });
  };
  return std::any_of(listing.folders.begin(), listing.folders.end(), is_database);
}

bool has_arrays_below(const Listing& listing, const std::string& metadata_key) {
  if (listing.folder == nullptr) return false;
  std::vector<std::string> queue;
  std::set<FileIdentity> seen;
  const auto add = [&](const Listing& above) {
    for (const auto& name : above.folders) queue.push_back(join(above.path, name));
  };
  add(listing);
  for (std::size_t i = 0; i < queue.size() && i < kMaxFoldersLookedAt; ++i) {
    const auto identity = listing.folder->identity(queue[i]);
    if (!identity || !seen.insert(*identity).second) continue;
    const Listing below = list_directory(listing.folder, queue[i]);
    if (has_array_metadata(below) ||
        (!metadata_key.empty() && listing.folder->exists(join(below.path, metadata_key))))
      return true;
    if (queue.size() < kMaxFoldersLookedAt) add(below);
  }
  return false;
}

bool is_pytree(const Item& item) { return item.kind == ItemKind::kPytree; }

bool look_at_marked(const Listing& listing, Layout& layout) {
  const std::string& path = listing.path;
  layout.path = path;
  layout.folder = listing.folder;
  layout.v1 = listing.has_file(kV1Marker);
  if (is_marked_item(listing)) {
    layout.kind = LayoutKind::kDirect;
    layout.items = {Item{"", path, ItemKind::kPytree, "", listing.folder}};
    return true;
  }
  if (has_array_metadata(listing)) {
    layout.kind = LayoutKind::kZarr;
    layout.items = {Item{"", path, ItemKind::kPytree, "", listing.folder}};
    return true;
  }
  // A manager's step may hold a Distributed Checkpoint of PyTorch, which another reader opens.
  if (!is_marked_checkpoint(listing) || holds_distributed(listing)) return false;
  layout.kind = LayoutKind::kComposite;
  layout.items = look_at_items(listing);
  if (std::any_of(layout.items.begin(), layout.items.end(), is_pytree)) return true;
  const bool parameters =
      std::any_of(listing.folders.begin(), listing.folders.end(),
                  [&](const auto& name) { return has_array_metadata(list_below(listing, name)); });
  if (parameters) {
    layout.kind = LayoutKind::kDirect;  // the oldest kind: only parameter folders
    layout.items = {Item{"", path, ItemKind::kPytree, "", listing.folder}};
  }
  return true;
}

bool look_at_unmarked(const Listing& listing, Layout& layout) {
  const bool temporary = is_temporary(fs::path(listing.path).filename().string());
  const auto marked = [&](const std::string& name) {
    if (is_temporary(name) && !temporary) return false;
    const Listing below = list_below(listing, name);
    return is_marked_item(below) && (temporary || unfinished_content(below).empty());
  };
  if (std::none_of(listing.folders.begin(), listing.folders.end(), marked)) return false;
  layout.path = listing.path;
  layout.folder = listing.folder;
  layout.kind = LayoutKind::kComposite;
  layout.is_marked = false;
  layout.items = look_at_items(listing);
  return true;
}

bool look_at_checkpoint(const Listing& listing, Layout& layout) {
  return look_at_marked(listing, layout) || look_at_unmarked(listing, layout);
}

bool has_other_items(const Listing& listing) {
  return std::ranges::any_of(listing.folders, [&](const std::string& name) {
    const auto listed = try_call([&] { return list_below(listing, name); });
    if (!listed) return false;
    const auto& [path, files, folders, handle] = listed.value();
    const auto is_content = [&](const std::string& file) {
      return is_json_file(file, name) || file == kProtoItemFile;
    };
    return std::ranges::any_of(files, is_content) ||
           random_key_item({.name = name, .path = path}, listed.value());
  });
}

}  // namespace cairn::inline v0::orbax
