// earlier_item.cc -- chooses the item, and the way in which its values are shared.
#include <cairn/orbax/reuse/earlier_item.h>

#include <cairn/base/text.h>
#include <cairn/error.h>
#include <cairn/orbax/layout/layout.h>
#include <cairn/orbax/reuse/shared_database.h>
#include <cairn/orbax/reuse/shared_folder.h>

#include <algorithm>
#include <utility>

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

void EarlierItem::open_now() {
  const Layout layout = find_layout(from_, {});
  const Item& item = find_item(layout, name_of(storage_.path));
  folder_ = item.folder->open_below(item.path);
  if (folder_->exists(join(item.path, kManifestFile)) != storage_.is_database)
    throw Error(
        Code::kFailedPrecondition,
        item.path + (storage_.is_database ? ": has no database, but the new checkpoint has one"
                                          : ": has a database, but the new checkpoint has none"));
  if (storage_.is_database)
    content_ = std::make_shared<SharedDatabase::Content>(folder_, storage_.threads);
}

void EarlierItem::open() {
  if (!std::exchange(is_tried_, true)) {
    const auto opened = try_call([&] { return open_now(), true; });
    if (!opened) failure_ = opened.error();
  }
  if (failure_) throw Error(*failure_);
}

std::optional<Bytes> EarlierItem::read(std::string_view key) {
  open();
  return content_ ? content_->read(key) : SharedFolder(folder_, "").read(key);
}

std::unique_ptr<SharedValues> EarlierItem::share_with(const std::string& folder) {
  open();
  if (content_) return std::make_unique<SharedDatabase>(folder_, folder, content_);
  return std::make_unique<SharedFolder>(folder_, folder);
}

}  // namespace cairn::inline v0::orbax
