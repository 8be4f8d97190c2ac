#include <cairn/tools/repair/orbax_copies.h>

#include <cairn/base/errors.h>
#include <cairn/handlers/array_reader.h>
#include <cairn/kvstore/folders/store_folder.h>
#include <cairn/kvstore/union.h>
#include <cairn/ocdbt/read/find_trees.h>
#include <cairn/ocdbt/read/versions.h>
#include <cairn/orbax/read/orbax_reader.h>
#include <cairn/tools/repair/must_end.h>

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <set>
#include <utility>

namespace cairn::inline v0 {
namespace {

using orbax::Item;
using orbax::ItemKind;
using orbax::Layout;
using orbax::LayoutKind;
using orbax::PytreeItem;

// Opens an item by the names of its arrays alone. A chunk that is missing is then an error: only
// `_METADATA` says whether chunks of zeros are left out.
PytreeItem open_by_names(const Item& item, const OpenOptions& options,
                         const StorePtr& arrays = nullptr) {
  PytreeItem opened = orbax::open_pytree_item(item, LayoutKind::kZarr, options, arrays);
  opened.missing = zarr::MissingChunk::kError;
  return opened;
}

// Whether the tree was opened without the file that lists its leaves.
bool is_by_names(const PytreeItem& item, LayoutKind kind) {
  return item.structure == orbax::Structure::kNames && kind != LayoutKind::kZarr;
}

class OrbaxCopies {
 public:
  OrbaxCopies(const Layout& layout, OpenOptions options)
      : layout_(layout), options_(std::move(options)) {
    for (const Item& item : layout_.items)
      if (item.kind == ItemKind::kPytree && (!options_.item || *options_.item == item.name))
        trees_.push_back(item);
    if (trees_.empty() && options_.item)
      throw Error(Code::kNotFound,
                  layout_.path + ": there is no tree in an item '" + *options_.item + "'");
  }

  FoundCopies find() {
    FoundCopies found;
    for (const orbax::LostPart& part : layout_.lost) found.notes.push_back(lost_text(part));
    if (!layout_.uncommitted.empty())
      found.notes.push_back(layout_.path + ": its save has not ended: " + layout_.uncommitted);
    if (layout_.metadata_error) found.notes.push_back(layout_.metadata_error->message());
    found.opened.push_back(as_it_is(found.notes));
    const auto leaves = found.opened.front().checkpoint->tensors();
    has_items_ =
        std::ranges::any_of(leaves, [](const TensorInfo& t) { return t.item.has_value(); });
    for (const Item& item : trees_) add_by_names(item, found.others);
    for (const Item& item : trees_) add_generations(item, found.others);
    for (const Item& item : trees_) add_processes(item, found.others);
    if (found.opened.front().lists_leaves)
      for (const Item& item : trees_) add_found_trees(item, leaves, found.others);
    return found;
  }

 private:
  LeafCopy as_it_is(std::vector<std::string>& notes) const {
    std::vector<PytreeItem> opened;
    std::vector<orbax::LostItem> lost;
    bool lists_leaves = true;
    for (const Item& item : trees_) {
      auto tree = try_call([&] { return orbax::open_pytree_item(item, layout_.kind, options_); });
      if (!tree) {
        if (must_end(tree.error())) throw Error(tree.error());
        const Error why = tree.error();
        lists_leaves = false;
        tree = try_call([&] { return open_by_names(item, options_); });
        notes.push_back(why.message() + (tree ? "; the tree is rebuilt from the names of its "
                                                "arrays, without strings and empty nodes"
                                              : ""));
        if (!tree) {
          lost.push_back({item, why});
          continue;
        }
      }
      PytreeItem& open = opened.emplace_back(std::move(tree).value());
      if (is_by_names(open, layout_.kind)) {
        lists_leaves = false;
        if (open.lacks_structure) open.missing = zarr::MissingChunk::kError;
      }
    }
    return {.checkpoint = make(std::move(opened), options_, std::move(lost)),
            .text = "",
            .prefix = "",
            .is_own = true,
            .lists_leaves = lists_leaves && layout_.lost.empty()};
  }

  [[nodiscard]] std::shared_ptr<const Checkpoint> make(
      std::vector<PytreeItem> items, const OpenOptions& options,
      std::vector<orbax::LostItem> lost = {}) const {
    return std::make_shared<orbax::OrbaxCheckpoint>(layout_, std::move(items), options,
                                                    std::move(lost));
  }

  // Databases of an item from which a copy is read.
  struct Database {
    StorePtr arrays = nullptr;  // null: the item's own
    bool may_lack_chunks = false;
    bool has_manifest = true;
  };

  // A copy of one tree.
  [[nodiscard]] LeafCopy copy_of(const Item& item, OpenOptions options, const Database& database,
                                 std::string text) const {
    auto tree = try_call(
        [&] { return orbax::open_pytree_item(item, layout_.kind, options, database.arrays); });
    const bool is_read = tree.ok();
    if (!tree) tree = try_call([&] { return open_by_names(item, options, database.arrays); });
    if (!tree) throw Error(tree.error());
    options.item = item.name;  // then the names of its leaves do not begin with the item's
    std::vector<PytreeItem> trees;
    trees.push_back(std::move(tree).value());
    const bool lists_leaves = is_read && !is_by_names(trees.front(), layout_.kind);
    if (trees.front().lacks_structure || database.may_lack_chunks)
      trees.front().missing = zarr::MissingChunk::kError;
    return {.checkpoint = make(std::move(trees), options),
            .text = std::move(text),
            .prefix = prefix_of(item),
            .is_own = true,
            .lists_leaves = lists_leaves && layout_.items.size() == 1,
            .is_found = !database.has_manifest};
  }

  // What the full names of an item's leaves begin with.
  [[nodiscard]] std::string prefix_of(const Item& item) const {
    return has_items_ ? item.name + "/" : "";
  }
  [[nodiscard]] std::string of_item(const Item& item, const std::string& text) const {
    return item.name.empty() ? text : text + " of item '" + item.name + "'";
  }

  // Arrays that `_METADATA` no longer lists, because it is damaged.
  void add_by_names(const Item& item, std::vector<CopyOpener>& others) const {
    others.push_back([this_ = *this, item] {
      std::vector<PytreeItem> trees;
      trees.push_back(open_by_names(item, this_.options_));
      OpenOptions options = this_.options_;
      options.item = item.name;
      return std::vector{LeafCopy{.checkpoint = this_.make(std::move(trees), options),
                                  .text = this_.of_item(item, "the arrays without the tree"),
                                  .prefix = this_.prefix_of(item)}};
    });
  }

  // Older generations of the database, the newest first.
  void add_generations(const Item& item, std::vector<CopyOpener>& others) const {
    const auto generations = try_call([&] { return older_generations(item); });
    if (!generations) return;  // the copy as it is has said why
    for (const std::uint64_t generation : generations.value())
      others.push_back([this_ = *this, item, generation] {
        OpenOptions options = this_.options_;
        options.version.generation = generation;
        return std::vector{this_.copy_of(
            item, options, {},
            this_.of_item(item, fmt::format("generation {} of the database", generation)))};
      });
  }

  // The files of an item.
  [[nodiscard]] StorePtr files_of_item(const Item& item) const {
    return files_of(item.folder != nullptr
                        ? item.folder->open_below(item.path)
                        : orbax::open_checkpoint_folder(item.path, options_.store));
  }

  [[nodiscard]] std::vector<std::uint64_t> older_generations(const Item& item) const {
    const StorePtr files = files_of_item(item);
    const auto info = ocdbt::read_database_info(*files);
    std::vector<std::uint64_t> found;
    if (!info) return found;
    // A damaged version node hides the versions below it, but not those in the manifest.
    const auto all = try_call([&] { return ocdbt::list_versions(*files, *info); });
    if (all)
      for (const auto& version : all.value()) found.push_back(version.version.generation);
    else
      for (const auto& version : info->manifest.versions) found.push_back(version.generation);
    if (!found.empty()) found.pop_back();  // the newest is the checkpoint as it is
    std::ranges::reverse(found);
    return found;
  }

  // The databases that the processes wrote, which a merge leaves behind.
  void add_processes(const Item& item, std::vector<CopyOpener>& others) const {
    const std::vector<std::string> folders = process_folders(item);
    if (folders.empty()) return;
    others.push_back([this_ = *this, item, folders] {
      const StorePtr files = this_.files_of_item(item);
      std::vector<StorePtr> parts;
      std::vector<std::string> notes;
      for (const std::string& folder : folders) {
        const auto opened = try_call([&] {
          StorePtr part =
              open_ocdbt(prefix_store(files, folder + "/"), {}, this_.options_.resources.threads);
          static_cast<void>(part->list(""));
          return part;
        });
        if (opened)
          parts.push_back(opened.value());
        else
          notes.push_back(opened.error().message());
      }
      if (parts.empty()) throw Error(Code::kDataLoss, notes.front());
      const bool lacks_some = parts.size() < folders.size();
      LeafCopy copy =
          this_.copy_of(item, this_.options_,
                        {.arrays = union_store(std::move(parts)), .may_lack_chunks = lacks_some},
                        this_.of_item(item, "the databases of the processes"));
      copy.notes = std::move(notes);
      return std::vector{std::move(copy)};
    });
  }

  [[nodiscard]] std::vector<std::string> process_folders(const Item& item) const {
    const auto folders =
        try_call([&] { return orbax::list_directory(layout_.folder, item.path).folders; });
    if (!folders) return {};
    std::vector<std::string> found;
    std::ranges::copy_if(folders.value(), std::back_inserter(found), [](const std::string& name) {
      return name.starts_with(orbax::kProcessPrefix);
    });
    return found;
  }

  // Trees that are found in the data files, for a database whose manifest is lost.
  void add_found_trees(const Item& item, const TensorList& leaves,
                       std::vector<CopyOpener>& others) const {
    std::set<std::string> names;
    for (const TensorInfo& leaf : leaves)
      if (leaf.item.value_or("") == (has_items_ ? item.name : "")) names.insert(leaf.name);
    others.push_back([this_ = *this, item, names] {
      std::vector<LeafCopy> copies;
      for (const ocdbt::FoundTree& tree :
           ocdbt::find_trees(this_.files_of_item(item), this_.options_.resources.threads)) {
        if (!this_.holds_only(tree, names)) continue;
        auto copy = try_call([&] {
          return this_.copy_of(item, this_.options_, {.arrays = tree.store, .has_manifest = false},
                               this_.of_item(item, "the tree at " + tree.place));
        });
        if (copy) copies.push_back(std::move(copy).value());
      }
      return copies;
    });
  }

  // Whether all arrays of the tree have names of leaves. The keys of a tree that lacks its upper
  // nodes may lack their beginnings.
  [[nodiscard]] bool holds_only(const ocdbt::FoundTree& tree,
                                const std::set<std::string>& names) const {
    const auto found =
        try_call([&] { return handlers::find_array_names(tree.store, tree.store->list("")); });
    return found && !found.value().empty() &&
           std::ranges::all_of(found.value(),
                               [&](const std::string& name) { return names.contains(name); });
  }

  Layout layout_;
  OpenOptions options_;
  std::vector<Item> trees_;
  bool has_items_ = false;
};

}  // namespace

FoundCopies find_orbax_copies(const orbax::Layout& layout, const OpenOptions& options) {
  return OrbaxCopies(layout, options).find();
}

}  // namespace cairn::inline v0
