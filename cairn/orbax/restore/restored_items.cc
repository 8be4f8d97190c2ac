// restored_items.cc -- finds out the kind of each item and reads it.
#include <cairn/orbax/restore/restored_items.h>

#include <cairn/base/errors.h>
#include <cairn/base/json/json.h>
#include <cairn/base/observer/observe.h>
#include <cairn/kvstore/folders/resolve.h>
#include <cairn/orbax/layout/item_kinds.h>
#include <cairn/orbax/layout/layout.h>
#include <cairn/orbax/layout/metadata.h>

#include <algorithm>
#include <utility>

namespace cairn::inline v0::orbax {
namespace {

std::string read_text(const FolderHandle& folder, const std::string& file) {
  return std::string(as_text(folder.read_text(file, kMaxMetadataFile)));
}

// The text of a JSON item whose files are in `path`.
std::string read_json(const FolderHandle& folder, const std::string& path, std::string_view item) {
  for (const std::string_view name : json_item_files(item)) {
    const std::string file = join(path, name);
    if (!folder.exists(file)) continue;
    std::string text = read_text(folder, file);
    with_context([&] { return file; }, [&] { (void)parse_json(text); });
    return text;
  }
  throw Error(Code::kNotFound, path + ": there is no such JSON item");
}

// A member of the file that describes a random key. A missing file is damage: without it nobody
// knows the type of the key.
bool flag_of(const Listing& item, std::string_view key, std::string_view name) {
  const std::string file = join(join(item.path, std::string(key) + "_metadata"), kJsonItemFile);
  return with_context(
      [&] { return file; },
      [&] {
        const Json json = parse_json(read_text(*item.folder, file));
        const Json* member = json.find(name);
        if (member == nullptr || !member->as_bool())
          data_loss("has no member '" + std::string(name) + "' that is true or false");
        return *member->as_bool();
      });
}

Tree only_leaf(Tree tree, const std::string& folder) {
  if (Tree::Dict* dict = std::get_if<Tree::Dict>(&tree.value()))
    if (dict->size() == 1 && dict->front().first == kArrayItemKey)
      return std::move(dict->front().second);
  throw Error(Code::kDataLoss, folder + ": is not the tree of one array '" +
                                   std::string(kArrayItemKey) + "' that its handler writes");
}

Tree as_tuple(Tree tree) {
  if (Tree::List* list = std::get_if<Tree::List>(&tree.value()))
    return Tree::Tuple{std::move(*list)};
  return tree;
}

class ItemRestorer {
 public:
  ItemRestorer(const std::string& path, const ItemRestorers& restorers)
      : layout_(find_layout(path, {.store = restorers.store})), restorers_(restorers) {
    if (layout_.kind != LayoutKind::kComposite || !layout_.root.empty())
      invalid_argument(path + ": is not a checkpoint of several items; restore it as a tree");
    const auto metadata = try_call([&] {
      return read_checkpoint_metadata(*layout_.folder, join(layout_.path, kCheckpointMetadataFile));
    });
    // As in Orbax, metadata that cannot be read are like none.
    if (metadata)
      for (const auto& [name, handler] : metadata.value().item_handlers) handlers_[name] = handler;
  }

  RestoredItems all(const ItemRequests& requests) const {
    RestoredItems items;
    if (requests.empty()) check_nothing_lost();
    if (requests.empty())
      for (const Item& item : layout_.items) items.emplace(item.name, restore(item, {}));
    for (const auto& [name, request] : requests) items.emplace(name, restore(find(name), request));
    return items;
  }

 private:
  // All items are wanted, and those that are missing would be left out silently.
  void check_nothing_lost() const {
    if (layout_.lost.empty()) return;
    throw Error(Code::kDataLoss,
                lost_text(layout_.lost.front()) + "; name the items to restore without it");
  }

  const Item& find(const std::string& name) const {
    for (const LostPart& part : layout_.lost)
      if (part.item == name && part.is_tree)
        throw Error(Code::kDataLoss, lost_text(part) + "; nothing is left of it to restore");
    const auto found = std::ranges::find(layout_.items, name, &Item::name);
    if (found != layout_.items.end()) return *found;
    std::string names;
    for (const Item& item : layout_.items)
      names.append(names.empty() ? "'" : ", '").append(item.name).append("'");
    throw Error(Code::kNotFound, layout_.path + ": has no item '" + name + "'; its items are " +
                                     (names.empty() ? "none" : names));
  }

  // A tree of Orbax's handlers for trees.
  Tree restore_tree(const std::string& folder, const ItemRequest& request) const {
    if (const auto* args = std::get_if<PyTreeRestoreArgs>(&request))
      return restorers_.handler.restore(folder, *args);
    const auto& standard = std::get<StandardRestoreArgs>(request);
    return with_context([&] { return folder; },
                        [&] {
                          return restorers_.handler.restore(
                              folder,
                              standard_restore_args(standard, restorers_.handler.metadata(folder)));
                        });
  }

  RestoredItem restore(const Item& item, const ItemRequest& request) const {
    const std::string folder = join(layout_.path, item.name);
    const auto found = handlers_.find(item.name);
    const std::string handler = found == handlers_.end() ? "" : found->second;
    if (const FilesReader* reader = reader_of(item.name, handler))
      return CustomItem{handler, (*reader)(folder)};
    const Listing listing = list_directory(layout_.folder, folder);
    if (listing.has_folder(kJaxRandomKeyFolder)) {
      const std::string key = join(folder, kJaxRandomKeyFolder);
      return JaxRandomKeyItem{.key = only_leaf(restorers_.handler.restore(key, {}), key),
                              .typed = flag_of(listing, kJaxRandomKeyFolder, "typed")};
    }
    if (listing.has_folder(kNumpyRandomKeyFolder)) {
      Tree state = restorers_.handler.restore(join(folder, kNumpyRandomKeyFolder), {});
      const bool legacy = flag_of(listing, kNumpyRandomKeyFolder, "legacy");
      return NumpyRandomKeyItem{legacy ? as_tuple(std::move(state)) : std::move(state)};
    }
    const auto* args = std::get_if<PyTreeRestoreArgs>(&request);
    if (args == nullptr && (item.kind != ItemKind::kPytree || handler == kArrayHandler))
      invalid_argument(folder + ": is not a tree, so StandardRestoreArgs do not fit");
    if (handler == kArrayHandler)
      return only_leaf(restorers_.handler.restore(folder, *args), folder);
    if (item.kind == ItemKind::kPytree) return restore_tree(folder, request);
    if (listing.has_file(kProtoItemFile))
      return ProtoItem{read_text(*listing.folder, join(folder, kProtoItemFile))};
    for (const std::string_view name : json_item_files(item.name))
      if (listing.has_file(name)) return JsonItem{read_json(*listing.folder, folder, item.name)};
    refuse(folder, handler);
  }

  // The reader that the caller gives for an item; null: none.
  [[nodiscard]] const FilesReader* reader_of(const std::string& item,
                                             const std::string& handler) const {
    const auto& [by_item, by_handler] = restorers_.readers;
    const auto find_in = [](const auto& readers, const std::string& name) {
      const auto it = readers.find(name);
      return it != readers.end() && it->second ? &it->second : nullptr;
    };
    const FilesReader* reader = find_in(by_item, item);
    return reader != nullptr ? reader : find_in(by_handler, handler);
  }

  [[noreturn]] void refuse(const std::string& folder, const std::string& handler) const {
    observe(restorers_.observer, EventLevel::kWarning, "restore.item_without_handler",
            {{"path", folder}, {"handler", handler}});
    throw Error(Code::kUnimplemented,
                folder + ": is an item of a handler that Cairn does not have" +
                    (handler.empty() ? "" : " (" + handler + ")") +
                    "; give a reader for it, or name the items to restore without it");
  }

  Layout layout_;
  const ItemRestorers& restorers_;
  std::map<std::string, std::string> handlers_;
};

}  // namespace

RestoredItems restore_items(const std::string& path, const ItemRequests& requests,
                            const ItemRestorers& restorers) {
  return ItemRestorer(path, restorers).all(requests);
}

std::string read_json_file(const std::string& path, std::string_view item,
                           const StoreOptions& store) {
  return read_json(*open_folder(path, store), path, item);
}

}  // namespace cairn::inline v0::orbax
