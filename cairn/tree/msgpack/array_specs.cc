// array_specs.cc -- recognises specs by their members, as T5X does, and checks where they lead.
#include <cairn/tree/msgpack/array_specs.h>

#include <cairn/base/errors.h>
#include <cairn/tree/msgpack/msgpack.h>
#include <cairn/tree/names.h>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>

namespace cairn::inline v0 {
namespace {

// The drivers whose paths T5X takes as those of a local folder.
constexpr std::array<std::string_view, 3> kFolderDrivers = {"file", "gfile", "gcs"};

// The text of a string member; nullopt if there is none.
std::optional<std::string> text_member(const Tree& tree, std::string_view name) {
  const Tree* member = tree.find(name);
  const auto* leaf = member == nullptr ? nullptr : member->custom<MsgpackLeaf>();
  if (leaf == nullptr || leaf->kind != MsgpackKind::kString) return std::nullopt;
  return std::string(as_text(leaf->pieces.front()));
}

bool is_spec(const Tree& tree) {
  if (tree.dict() == nullptr || tree.find("metadata") == nullptr) return false;
  const Tree* store = tree.find("kvstore");
  return text_member(tree, "driver") && store != nullptr && text_member(*store, "driver");
}

void check_folder(std::string_view folder) {
  for (std::string_view rest = folder;;) {
    const std::size_t slash = std::min(rest.find('/'), rest.size());
    const std::string_view part = rest.substr(0, slash);
    if (part.empty() || part == "." || part == ".." || part.find('\0') != std::string_view::npos)
      data_loss(fmt::format("the array's path \"{}\" does not name a folder below the checkpoint",
                            folder));
    if (slash == rest.size()) return;
    rest.remove_prefix(slash + 1);
  }
}

std::string folder_of(const Tree& spec) {
  const Tree& store = *spec.find("kvstore");
  const std::string driver = *text_member(spec, "driver");
  const std::string kvstore = *text_member(store, "driver");
  if (driver != "zarr")
    throw Error(Code::kUnimplemented,
                fmt::format("the array's TensorStore driver is \"{}\"; T5X writes \"zarr\", and "
                            "only that can be read",
                            driver));
  if (std::find(kFolderDrivers.begin(), kFolderDrivers.end(), kvstore) == kFolderDrivers.end())
    throw Error(Code::kUnimplemented,
                fmt::format("the array is in a TensorStore key-value store of driver \"{}\"; only "
                            "folders beside the msgpack file can be read",
                            kvstore));
  auto path = text_member(store, "path");
  if (!path) path = text_member(spec, "path");
  if (!path) data_loss("the array's TensorStore spec has no path");
  if (path->ends_with('/')) path->pop_back();
  check_folder(*path);
  return *std::move(path);
}

class Taker {
 public:
  void walk(Tree& tree) {
    if (!path_.empty() && is_spec(tree)) return take(tree);
    if (auto* dict = std::get_if<Tree::Dict>(&tree.value()))
      for (auto& [key, child] : *dict) below({key, KeyType::kDict}, child);
    else if (auto* list = std::get_if<Tree::List>(&tree.value()))
      walk_items(*list);
    else if (auto* tuple = std::get_if<Tree::Tuple>(&tree.value()))
      walk_items(tuple->items);
  }

  [[nodiscard]] std::vector<StoredElsewhere> take_found() && { return std::move(found_); }

 private:
  void below(Key key, Tree& child) {
    path_.push_back(std::move(key));
    walk(child);
    path_.pop_back();
  }

  void walk_items(Tree::List& items) {
    for (std::size_t i = 0; i < items.size(); ++i)
      below({std::to_string(i), KeyType::kSequence}, items[i]);
  }

  void take(Tree& tree) {
    with_context([&] { return leaf_text(path_); },
                 [&] {
                   found_.push_back({path_, folder_of(tree)});
                 });
    tree = Tree(CustomLeaf::of(MsgpackLeaf{.kind = MsgpackKind::kString,
                                           .dtype_name = "string",
                                           .pieces = {as_bytes(kArrayPlaceholder)}}));
  }

  KeyPath path_;
  std::vector<StoredElsewhere> found_;
};

}  // namespace

std::vector<StoredElsewhere> take_array_specs(Tree& parsed) {
  Taker taker;
  taker.walk(parsed);
  return std::move(taker).take_found();
}

}  // namespace cairn::inline v0
