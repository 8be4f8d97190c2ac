// earlier_item.cc -- chooses the item, and the way in which its values are shared.
#include <cairn/orbax/reuse/earlier_item.h>

#include <cairn/base/text.h>
#include <cairn/error.h>
#include <cairn/orbax/layout/layout.h>
#include <cairn/orbax/reuse/shared_database.h>
#include <cairn/orbax/reuse/shared_folder.h>

#include <algorithm>

namespace cairn::inline v0::orbax {
namespace {

const Item& find_item(const Layout& layout, std::string_view name) {
  const auto is_tree = [](const Item& item) { return item.kind == ItemKind::kPytree; };
  const auto named = std::ranges::find_if(
      layout.items, [&](const Item& item) { return is_tree(item) && item.name == name; });
  if (named != layout.items.end()) return *named;
  if (std::ranges::count_if(layout.items, is_tree) == 1)
    return *std::ranges::find_if(layout.items, is_tree);
  throw Error(Code::kNotFound, layout.path + ": has no tree named '" + std::string(name) +
                                   "', and not just one tree");
}

}  // namespace

std::unique_ptr<SharedValues> open_shared_values(const std::string& from,
                                                 const ItemTarget& target) {
  const Layout layout = find_layout(from, {});
  const Item& item = find_item(layout, name_of(target.item));
  const FolderPtr earlier = item.folder->open_below(item.path);
  if (earlier->exists(join(item.path, kManifestFile)) != target.is_database)
    throw Error(
        Code::kFailedPrecondition,
        item.path + (target.is_database ? ": has no database, but the new checkpoint has one"
                                        : ": has a database, but the new checkpoint has none"));
  if (target.is_database)
    return std::make_unique<SharedDatabase>(earlier, target.folder, target.threads);
  return std::make_unique<SharedFolder>(earlier, target.folder);
}

}  // namespace cairn::inline v0::orbax
