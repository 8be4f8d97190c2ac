// pytree_restore.cc -- selects the leaves to restore and their handlers, and fills the result tree.
#include <cairn/orbax/restore/pytree_restore.h>

#include <cairn/base/observer/observe.h>
#include <cairn/handlers/leaf_args.h>
#include <cairn/handlers/read_leaves.h>
#include <cairn/io/file.h>
#include <cairn/kvstore/folders/resolve.h>
#include <cairn/orbax/layout/layout.h>
#include <cairn/orbax/layout/metadata.h>
#include <cairn/orbax/open.h>
#include <cairn/orbax/restore/leaf_restorer.h>
#include <cairn/orbax/restore/multiprocess_restore.h>
#include <cairn/orbax/restore/pytree_transform.h>
#include <cairn/tree.h>
#include <cairn/tree/metadata/rich_types.h>
#include <cairn/tree/names.h>

#include <algorithm>
#include <map>
#include <utility>

namespace cairn::inline v0::orbax {
namespace {

Tree stored_leaf(const TensorInfo& leaf, std::size_t position, bool rich_types) {
  if (const auto empty = empty_node_of(leaf.typestr, rich_types)) return Tree(*empty);
  if (leaf.typestr == "placeholder") return Tree(Placeholder{});
  return Tree(CustomLeaf::of(position));
}

// Returns true if the structure is only partly known or comes from older files. Orbax's older rules
// then apply.
bool is_legacy(const PytreeItem& item) {
  return item.structure != Structure::kTreeMetadata || item.has_aggregated_values;
}

// Throws if the caller requests a value of some type but a placeholder was saved: the value is
// missing.
void check_placeholder(const KeyPath& path, const AnyRestoreArgs& args) {
  const auto wanted = handlers::restore_type_of(args);
  if (!wanted || (wanted->typestr() != nullptr && *wanted->typestr() == "placeholder")) return;
  throw Error(Code::kNotFound,
              leaf_text(path) + ": a placeholder was saved here, so there is no value to restore" +
                  (wanted->typestr() != nullptr ? " as " + *wanted->typestr() : "") +
                  "; leave out restore_type to keep it a placeholder");
}

// ---- without a target ----

Tree restore_as_stored(const std::shared_ptr<const StoredItem>& item, const Tree& stored,
                       const PyTreeRestoreArgs& args, const RestoreContext& context) {
  NodeFinder restore_args(args.restore_args);
  std::vector<WantedLeaf> wanted;
  for (const TreeEntry& entry : flatten(stored)) {
    if (std::holds_alternative<EmptyNode>(entry.value.value())) continue;
    AnyRestoreArgs leaf_args = restore_args_at(restore_args, entry.path);
    if (const auto* position = entry.value.custom<std::size_t>()) {
      wanted.push_back({entry.path, *position, std::move(leaf_args)});
    } else {
      check_placeholder(entry.path, leaf_args);
    }
  }
  std::vector<TreeEntry> restored = LeafRestorer(item, context).run(wanted);
  std::size_t next = 0;
  return map_leaves(stored, [&](const KeyPath& /*path*/, const Tree& leaf) {
    if (leaf.custom<std::size_t>() == nullptr) return leaf;
    return std::move(restored[next++].value);
  });
}

// ---- with a target ----

// Returns the leaves of the target that the older rules look up: all of them. Other stored leaves
// are ignored.
std::vector<KeyPath> plan_legacy(const Tree& stored, const Tree& target) {
  NodeFinder finder(stored);
  std::vector<KeyPath> paths;
  for (TreeEntry& entry : flatten(target)) {
    if (std::holds_alternative<EmptyNode>(entry.value.value())) continue;
    const Tree* node = finder.at(entry.path);
    if (node == nullptr)
      throw Error(Code::kNotFound, "the target has a leaf at " + quoted_leaf_text(entry.path) +
                                       ", which is not stored");
    if (node->custom<std::size_t>() != nullptr) paths.push_back(std::move(entry.path));
  }
  return paths;
}

// Adds the empty nodes and placeholders. If an empty node is stored and the target has a leaf, the
// empty node is restored. A stored placeholder is restored too, unless the restore is partial: then
// the target's value stays. A placeholder of the target stays, unless the restore is partial: then
// it counts as a leaf.
void add_nothings(const Tree& source, const Tree& target, bool partial,
                  std::vector<TreeEntry>& restored) {
  NodeFinder finder(source);
  for (TreeEntry& entry : flatten(target)) {
    if (std::holds_alternative<EmptyNode>(entry.value.value())) continue;
    if (!partial && std::holds_alternative<Placeholder>(entry.value.value())) continue;
    const Tree* node = finder.at(entry.path);
    if (node == nullptr) continue;
    if (std::holds_alternative<EmptyNode>(node->value()) ||
        (!partial && std::holds_alternative<Placeholder>(node->value())))
      restored.push_back({std::move(entry.path), *node});
  }
}

Tree restore_into_target(const std::shared_ptr<const StoredItem>& item, const Tree& stored,
                         const PyTreeRestoreArgs& args, const RestoreContext& context) {
  const Tree& target = *args.item;
  const Tree source = as_stored(stored);
  const bool legacy = is_legacy(item->item());
  const std::vector<KeyPath> paths =
      legacy ? plan_legacy(source, target)
             : plan_restore(source, target,
                            args.partial_restore ? MatchMode::kPartial : MatchMode::kExact);
  NodeFinder of_source(source), of_target(target), restore_args(args.restore_args);
  std::vector<WantedLeaf> wanted;
  for (const KeyPath& path : paths) {
    const Tree* node = of_source.at(path);
    const auto* position = node->custom<std::size_t>();
    AnyRestoreArgs leaf_args = restore_args_at(restore_args, path);
    if (std::holds_alternative<Placeholder>(node->value())) check_placeholder(path, leaf_args);
    if (position == nullptr) continue;
    if (!legacy) fill_from_target(leaf_args, *of_target.at(path));
    wanted.push_back({path, *position, std::move(leaf_args)});
  }
  std::vector<TreeEntry> restored = LeafRestorer(item, context).run(wanted);
  add_nothings(source, target, args.partial_restore, restored);
  return fill_target(target, std::move(restored));
}

// Adds a leaf of which only the path is known. Its restore arguments determine its type.
void add_unknown_leaf(PytreeItem& item, KeyPath path) {
  TensorInfo& leaf = item.tensors.emplace_back();
  leaf.name = param_name(path);
  leaf.path = std::move(path);
  leaf.kind = LeafKind::kUnknown;
  item.values.emplace_back();
}

// Adds the shardings. They are recorded in a separate file, so they exist even for leaves that no
// other file describes.
void add_shardings(PytreeItem& item) {
  if (!item.has_shardings) return;
  std::map<std::string_view, TensorInfo*> by_name;
  for (TensorInfo& leaf : item.tensors) by_name.emplace(leaf.name, &leaf);
  const std::string file = join(item.item.path, kShardingFile);
  for (auto& [name, sharding] : with_context(
           [&] { return file; },
           [&] {
             return parse_shardings(as_text(item.item.folder->read_text(file, kMaxMetadataFile)));
           }))
    if (const auto it = by_name.find(name); it != by_name.end())
      it->second->sharding = std::move(sharding);
}

// Takes the structure of a tree that no file describes from the target.
void describe_by(PytreeItem& item, const Tree& target) {
  for (TreeEntry& entry : flatten(as_stored(target)))
    if (!std::holds_alternative<EmptyNode>(entry.value.value()))
      add_unknown_leaf(item, std::move(entry.path));
}

// Takes the structure of a tree without a database from the names of the parameters' folders, which
// are keys joined with '.'. Does nothing if the item also has a file of strings: their places in
// the tree are unknown, and a partial tree is not used.
void describe_by_folders(PytreeItem& item) {
  const Listing listing = list_directory(item.item.folder, item.item.path);
  if (listing.has_file(kStringsFile)) return;
  for (const std::string& name : listing.folders) {
    if (name == kArrayMetadataFolder) continue;
    KeyPath path;
    for (std::size_t start = 0; start <= name.size();) {
      const std::size_t end = std::min(name.find('.', start), name.size());
      path.push_back({name.substr(start, end - start), KeyType::kDict});
      start = end + 1;
    }
    add_unknown_leaf(item, std::move(path));
  }
}

// Completes the description of a tree that no file describes or that is only partly described. If
// `_METADATA` exists, only its leaves count.
void describe(PytreeItem& item, const PyTreeRestoreArgs& args,
              const PyTreeCheckpointHandlerOptions& options) {
  if (item.structure == Structure::kTreeMetadata) {
    item.tensors.resize(item.recorded);
    item.values.resize(item.recorded);
  } else if (item.structure == Structure::kNames) {
    if (!options.use_ocdbt) describe_by_folders(item);
    if (!item.tensors.empty()) return add_shardings(item);
    if (!args.item)
      throw Error(Code::kNotFound,
                  item.item.path +
                      ": no structure could be identified: there is no _METADATA and no file '" +
                      options.aggregate_filename +
                      "'; give a target, or open it by the names of its arrays (cairn::open)");
    describe_by(item, *args.item);
    add_shardings(item);
  } else if (item.structure == Structure::kAggregate) {
    // Placeholders do not record the type of a leaf.
    for (std::size_t i = 0; i < item.tensors.size(); ++i)
      if (item.tensors[i].kind == LeafKind::kUnknown) item.tensors[i].typestr.clear();
  }
}

// Reports the files that say what the structure is, and that are not there. As Orbax, it looks for
// the aggregate file only where `_METADATA` alone is not enough. Without OCDBT, the folders can
// take its place.
void report_missing(const PytreeItem& item, const PyTreeRestoreArgs& args,
                    const PyTreeCheckpointHandlerOptions& options) {
  const auto report = [&](std::string_view event) {
    observe(options.observer, EventLevel::kWarning, event, {{"path", item.item.path}});
  };
  const bool has_metadata = item.structure == Structure::kTreeMetadata;
  if (!has_metadata) report("restore.missing_metadata");
  if (has_metadata && !args.transforms && !args.legacy_transform_fn) return;
  if (options.use_ocdbt &&
      !item.item.folder->exists(join(item.item.path, options.aggregate_filename)))
    report("restore.missing_structure");
}

PytreeItem open_item(const std::string& directory, const RestoreContext& context) {
  const StoreOptions& store = context.options->store;
  if (!is_store_url(directory) && !directory_exists(directory))
    throw Error(Code::kNotFound, directory + ": there is no such folder to restore from");
  OpenOptions open;
  open.store = store;
  open.resources = {.threads = context.options->resources.threads, .memory = context.memory};
  open.aggregate_filename = context.options->aggregate_filename;
  return open_pytree_structure({"", directory, ItemKind::kPytree, "", nullptr}, open);
}

std::shared_ptr<const StoredItem> stored_item(PytreeItem item, const RestoreContext& context) {
  return std::make_shared<const StoredItem>(std::move(item), context.executor, context.memory,
                                            context.options->multiprocessing_options);
}

Tree restore_here(const std::string& directory, const PyTreeRestoreArgs& args,
                  const RestoreContext& context) {
  PytreeItem opened = open_item(directory, context);
  report_missing(opened, args, *context.options);
  describe(opened, args, *context.options);
  if (args.transforms && args.legacy_transform_fn)
    throw Error(Code::kInvalidArgument, "transforms and legacy_transform_fn exclude each other");
  // The older restore functions treat a missing chunk as fill values.
  if (args.transforms || args.legacy_transform_fn || is_legacy(opened))
    opened.missing = zarr::MissingChunk::kFill;
  const std::shared_ptr<const StoredItem> item = stored_item(std::move(opened), context);
  if (args.transforms) return restore_transformed(item, args, context);
  if (args.legacy_transform_fn) return restore_by_function(item, args, context);
  if (item->item().tensors.empty())
    throw Error(Code::kInvalidArgument,
                directory + ": the checkpoint's tree is empty: nothing was saved");
  const Tree stored =
      stored_tree(item->item(), context.options->pytree_metadata_options.support_rich_types);
  if (args.restore_args && !is_legacy(item->item()))
    check_restore_args(args.item ? *args.item : stored, *args.restore_args,
                       args.item && args.partial_restore);
  return args.item ? restore_into_target(item, stored, args, context)
                   : restore_as_stored(item, stored, args, context);
}

}  // namespace

std::shared_ptr<const StoredItem> open_stored_item(const std::string& directory,
                                                   const RestoreContext& context) {
  return stored_item(open_item(directory, context), context);
}

ParamInfo stored_param_info(const std::shared_ptr<const StoredItem>& item, const TensorInfo& leaf,
                            const RestoreContext& context) {
  const PytreeItem& of = item->item();
  ParamInfo info;
  info.name = leaf.name;
  info.keypath = leaf.path;
  info.parent_dir = of.item.path;
  info.is_ocdbt_checkpoint = of.storage != ArrayStorage::kFolders;
  info.use_zarr3 = of.zarr_format == 3 || (of.zarr_format == 0 && context.options->use_zarr3);
  info.value_typestr = leaf.typestr;
  info.raise_array_data_missing_error = of.missing == zarr::MissingChunk::kError;
  info.byte_limiter = context.limiter;
  info.is_prioritized_key_fn = context.options->is_prioritized_key_fn;
  info.observer = context.options->observer;
  info.reader = item;
  return info;
}

Tree stored_tree(const PytreeItem& item, bool rich_types) {
  if (rich_types && !item.metadata.rich_types.empty())
    return recorded_tree(item, item.tensors,
                         [&](std::size_t i) { return stored_leaf(item.tensors[i], i, true); });
  std::vector<TreeEntry> entries;
  entries.reserve(item.tensors.size());
  for (std::size_t i = 0; i < item.tensors.size(); ++i)
    entries.push_back({item.tensors[i].path, stored_leaf(item.tensors[i], i, rich_types)});
  return unflatten(std::move(entries));
}

Tree restore_item(const std::string& directory, const PyTreeRestoreArgs& args,
                  RestoreContext context, const std::function<void()>& look) {
  MultiprocessRestore multiprocess(context.options->multiprocessing_options, *context.registry);
  context.multiprocess = &multiprocess;
  return multiprocess.run([&] {
    look();
    return restore_here(directory, args, context);
  });
}

}  // namespace cairn::inline v0::orbax
