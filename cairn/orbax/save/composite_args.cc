// composite_args.cc -- turns items into the trees and files that Orbax's handlers write for them.
#include <cairn/orbax/save/composite_args.h>

#include <cairn/base/errors.h>
#include <cairn/base/json/json.h>
#include <cairn/io/directory.h>
#include <cairn/io/system_call.h>
#include <cairn/io/tree/local_folder.h>
#include <cairn/orbax/commit/pending_checkpoint.h>
#include <cairn/orbax/layout/item_kinds.h>
#include <cairn/orbax/layout/layout.h>
#include <cairn/orbax/save/copied_item.h>
#include <cairn/orbax/sharding.h>
#include <cairn/tree/leaf_value.h>

#include <cerrno>
#include <filesystem>
#include <utility>

namespace cairn::inline v0::orbax {
namespace {

bool is_number(const Tree& tree) {
  return std::holds_alternative<bool>(tree.value()) ||
         std::holds_alternative<std::int64_t>(tree.value()) ||
         std::holds_alternative<std::uint64_t>(tree.value()) ||
         std::holds_alternative<double>(tree.value()) ||
         std::holds_alternative<NumpyScalar>(tree.value());
}

bool is_array(const Tree& tree) {
  return tree.array() != nullptr || tree.custom<ShardedArray>() != nullptr;
}

// Orbax names the item of a handler that is made of parts by the parts' folders.
void add_random_key(const std::string& name, std::string_view handler, std::string_view key,
                    std::string_view flag, bool value, CompositeArgs& args) {
  const std::string metadata = join(name, std::string(key) + "_metadata");
  args.folders.emplace_back(name, handler);
  args.folders.emplace_back(join(name, key), "");
  args.folders.emplace_back(metadata, "");
  std::string text = to_text(Json(JsonObject{{std::string(flag), value}}), JsonStyle::kPython);
  args.files.push_back({metadata, [text = std::move(text)](const OutputFolder& folder) {
                          folder.write(kJsonItemFile, text);
                        }});
}

// A tree of one leaf, as ArrayCheckpointHandler stores it.
CompositeTree tree_of_array(std::string folder, const Tree& leaf, const SaveArgs& save_args) {
  const std::string name(kArrayItemKey);
  return {
      .folder = std::move(folder),
      .args = std::make_shared<PyTreeSaveArgs>(PyTreeSaveArgs{
          .item = Tree{{name, leaf}}, .save_args = Tree{{name, Tree(CustomLeaf::of(save_args))}}}),
      .without_database = true};
}

// A leaf of a StandardItem. As in Orbax, a scalar of NumPy becomes an array without dimensions.
Tree standard_leaf(const KeyPath& path, const Tree& leaf) {
  if (const auto* scalar = std::get_if<NumpyScalar>(&leaf.value())) return array_of(*scalar);
  if (!is_number(leaf) && !is_array(leaf) && !std::holds_alternative<EmptyNode>(leaf.value()))
    invalid_argument("the leaf " + path_text(path) +
                     " is neither an array nor a number; a StandardItem holds no other leaves");
  return leaf;
}

// As StandardCheckpointHandler, which refuses what others only warn of.
void refuse_aggregate(const Tree& save_args) {
  (void)map_leaves(save_args, [](const KeyPath& path, const Tree& leaf) {
    if (const auto* args = leaf.custom<SaveArgs>(); args != nullptr && args->aggregate)
      invalid_argument("the leaf " + path_text(path) +
                       " is to be aggregated, which a StandardItem cannot be");
    return leaf;
  });
}

// A folder of this machine that lives as long as the object.
class TemporaryFolder {
 public:
  TemporaryFolder()
      : path_((std::filesystem::temp_directory_path() / "cairn-item-XXXXXX").string()) {
    if (::mkdtemp(path_.data()) == nullptr) fail_file_call(path_, "make a temporary folder", errno);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  ~TemporaryFolder() {
    (void)try_call([&] { return remove_tree(path_), true; });
  }
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// Calls a function that writes files to a folder of this machine, and brings them to a store.
void write_files(const std::function<void(const std::string& directory)>& write,
                 const OutputFolder& folder) {
  if (folder.is_local()) return write(folder.path());
  const TemporaryFolder temporary;
  write(temporary.path());
  copy_item({.name = {}, .path = temporary.path(), .folder = LocalFolder::open(temporary.path())},
            folder);
}

class ItemAdder {
 public:
  ItemAdder(const std::string& name, CompositeArgs& args) : name_(name), args_(args) {}

  void operator()(const PyTreeSaveArgs& item) const { add_tree(name_, item, args_); }

  void operator()(const StandardItem& item) const {
    if (is_number(item.item) || is_array(item.item))
      invalid_argument("is one array or number; save it as an ArrayItem");
    if (item.item == Tree()) invalid_argument("has no tree to save");
    if (item.save_args) refuse_aggregate(*item.save_args);
    args_.folders.emplace_back(name_, kStandardHandler);
    args_.trees.push_back({.folder = name_,
                           .args = std::make_shared<PyTreeSaveArgs>(
                               PyTreeSaveArgs{.item = map_leaves(item.item, standard_leaf),
                                              .save_args = item.save_args,
                                              .custom_metadata = item.custom_metadata})});
  }

  void operator()(const ArrayItem& item) const {
    if (!is_number(item.item) && !is_array(item.item))
      invalid_argument("is neither an array nor a number; save it as a tree");
    args_.folders.emplace_back(name_, kArrayHandler);
    args_.trees.push_back(tree_of_array(name_, item.item, item.save_args));
  }

  void operator()(const JsonItem& item) const {
    add_text(name_, std::string(kJsonHandler), std::string(kJsonItemFile),
             to_text(parse_json(item.text), JsonStyle::kPython), args_);
  }

  void operator()(const ProtoItem& item) const {
    add_text(name_, std::string(kProtoHandler), std::string(kProtoItemFile), item.text, args_);
  }

  void operator()(const JaxRandomKeyItem& item) const {
    if (!is_array(item.key))
      invalid_argument("is not an array; the data of a random key are an array of uint32");
    add_random_key(name_, kJaxRandomKeyHandler, kJaxRandomKeyFolder, "typed", item.typed, args_);
    args_.trees.push_back(tree_of_array(join(name_, kJaxRandomKeyFolder), item.key, {}));
  }

  void operator()(const NumpyRandomKeyItem& item) const {
    const bool legacy = item.state.tuple() != nullptr;
    if (!legacy && item.state.dict() == nullptr)
      invalid_argument("is neither a tuple nor a dict, as NumPy's states of generators are");
    add_random_key(name_, kNumpyRandomKeyHandler, kNumpyRandomKeyFolder, "legacy", legacy, args_);
    args_.trees.push_back(
        {.folder = join(name_, kNumpyRandomKeyFolder),
         .args = std::make_shared<PyTreeSaveArgs>(PyTreeSaveArgs{.item = item.state})});
  }

  void operator()(const FilesItem& item) const {
    if (item.handler.empty()) invalid_argument("does not name its handler");
    if (!item.write) invalid_argument("has no function that writes it");
    args_.folders.emplace_back(name_, item.handler);
    args_.files.push_back(
        {name_, [write = item.write](const OutputFolder& folder) { write_files(write, folder); }});
  }

 private:
  const std::string& name_;
  CompositeArgs& args_;
};

}  // namespace

void add_item(const std::string& name, const CheckpointItem& item, CompositeArgs& args) {
  check_item_name(name);
  with_context([&] { return "the item '" + name + "'"; },
               [&] { std::visit(ItemAdder(name, args), item); });
}

void add_tree(const std::string& name, const PyTreeSaveArgs& tree, CompositeArgs& args) {
  args.folders.emplace_back(name, pytree_handler_name(args.v1));
  args.trees.push_back({.folder = name, .args = borrowed(tree)});
}

void add_text(const std::string& name, std::string handler, std::string file, std::string text,
              CompositeArgs& args) {
  args.folders.emplace_back(name, std::move(handler));
  args.files.push_back({name, [file = std::move(file), text = std::move(text)](
                                  const OutputFolder& folder) { folder.write(file, text); }});
}

}  // namespace cairn::inline v0::orbax
