// pytree_save.cc -- passes leaves to their handlers, writes the values that the handlers add, and
// writes the tree's metadata last.
#include <cairn/orbax/save/pytree_save.h>

#include <cairn/base/executor.h>
#include <cairn/base/json.h>
#include <cairn/handlers/leaf_args.h>
#include <cairn/io/file.h>
#include <cairn/orbax/save/collected_item.h>
#include <cairn/tree/rich_types.h>

#include <algorithm>
#include <utility>

namespace cairn::inline v0::orbax {
namespace {

constexpr std::int64_t kDefaultFileBytes = std::int64_t{2} << 30U;

// All leaves of one handler.
struct Batch {
  TypeHandlerPtr handler;
  std::vector<Tree> values;
  std::vector<ParamInfo> infos;
  std::vector<SaveArgs> args;
};

bool has_no_value(const Tree& leaf) {
  return std::holds_alternative<EmptyNode>(leaf.value()) ||
         std::holds_alternative<Placeholder>(leaf.value());
}

SaveOptions writer_options(const PyTreeSaveArgs& args, const SaveContext& context) {
  SaveOptions out;
  out.use_ocdbt = context.options->use_ocdbt;
  out.use_zarr3 = context.options->use_zarr3;
  out.compression = context.options->use_compression ? context.options->compression
                                                     : Compression(Compression::kNone);
  out.target_file_bytes = args.ocdbt_target_data_file_size.value_or(kDefaultFileBytes);
  if (out.target_file_bytes < 0)
    throw Error(Code::kInvalidArgument, "ocdbt_target_data_file_size is " +
                                            std::to_string(out.target_file_bytes) +
                                            " bytes; it must not be negative (0: no limit)");
  return out;
}

SavingProcess saving_process(const distributed::ProcessGroup& group) {
  return {.index = group.index(),
          .count = group.count(),
          .is_primary = group.is_primary(),
          .is_apart = group.writes_separately()};
}

// Returns the settings that must be equal in all processes, in addition to the arrays. Processes
// that write separately may use different folder names.
std::string describe(const std::string& directory, const SaveOptions& options,
                     const distributed::ProcessGroup& group) {
  return std::string(options.use_ocdbt ? "an OCDBT database" : "a folder for each array") +
         ", Zarr v" + (options.use_zarr3 ? "3" : "2") +
         (group.writes_separately() ? "" : ", in " + directory);
}

// Throws if an array's metadata_key cannot be used with the options: Zarr v3 always uses zarr.json,
// and the validation after a merge treats an array without .zarray as damaged.
void check_metadata_keys(const std::vector<SaveLeaf>& leaves,
                         const PyTreeCheckpointHandlerOptions& options) {
  for (const SaveLeaf& leaf : leaves) {
    if (leaf.metadata_key.empty()) continue;
    const std::string what = param_name(leaf.path) + ": metadata_key '" + leaf.metadata_key + "' ";
    if (options.use_zarr3)
      throw Error(Code::kInvalidArgument,
                  what + "is for Zarr v2; the metadata of Zarr v3 is always zarr.json");
    if (options.use_ocdbt && options.enable_post_merge_validation)
      throw Error(Code::kInvalidArgument,
                  what +
                      "makes an array that the check of the finished database takes for damage: it "
                      "has no .zarray. "
                      "Set enable_post_merge_validation or use_ocdbt to false");
  }
}

class Saver {
 public:
  Saver(std::string directory, const PyTreeSaveArgs& args, const SaveContext& context)
      : directory_(std::move(directory)),
        args_(args),
        context_(context),
        collected_(
            std::make_shared<CollectedItem>(context.background, saving_process(*context.group))) {}

  PreparedSave prepare() {
    entries_ = flatten(args_.item, DictOrder::kSorted);
    if (entries_.size() == 1 && entries_[0].path.empty() &&
        std::holds_alternative<EmptyNode>(entries_[0].value.value()))
      throw Error(Code::kInvalidArgument, "found an empty item: there is nothing to save");
    const SaveOptions options = writer_options(args_, context_);
    if (!args_.custom_metadata.empty()) {
      const auto parsed = try_call([&] { return parse_json(args_.custom_metadata); });
      if (!parsed)
        throw Error(Code::kInvalidArgument, "the custom metadata: " + parsed.error().message());
    }
    const std::vector<SaveArgs> leaf_args = save_args_for(entries_, args_.item, args_.save_args);
    leaves_.reserve(entries_.size());
    for (std::size_t i = 0; i < entries_.size(); ++i) add(entries_[i], leaf_args[i]);
    TypeHandler::Futures futures;
    for (const Batch& batch : std::exchange(batches_, {}))
      for (auto& future : batch.handler->serialize(batch.values, batch.infos, batch.args))
        futures.push_back(std::move(future));
    SaveItem item;
    item.leaves = collected_->merge_into(std::move(leaves_));
    check_metadata_keys(item.leaves, *context_.options);
    item.custom_metadata = args_.custom_metadata;
    if (context_.options->pytree_metadata_options.support_rich_types)
      item.rich_types = rich_types(item.leaves);
    item.values_written = [collected = collected_, futures] {
      collected->set_written();
      for (const auto& future : futures) future.get();
    };
    return {.write = write_later(std::move(item), options),
            .description = describe(directory_, options, *context_.group)};
  }

 private:
  void add(const TreeEntry& entry, const SaveArgs& args) {
    SaveLeaf& leaf = leaves_.emplace_back();
    leaf.path = entry.path;
    if (const auto* empty = std::get_if<EmptyNode>(&entry.value.value())) {
      const bool as_none = *empty == EmptyNode::kNamedTuple &&
                           !context_.options->pytree_metadata_options.support_rich_types;
      leaf.kind = empty_node_name(as_none ? EmptyNode::kNone : *empty);
      return;
    }
    if (has_no_value(entry.value)) {
      leaf.kind = "placeholder";
      return;
    }
    if (entry.value.custom<ValueMetadata>() != nullptr)
      throw Error(Code::kInvalidArgument, path_text(entry.path) +
                                              ": is what metadata() says of a stored leaf, which "
                                              "cannot be saved; restore the tree first");
    const TypeHandlerPtr handler =
        with_context([&] { return "type handler lookup failed for " + path_text(entry.path); },
                     [&] { return context_.registry->get(leaf_type(entry.value)); });
    leaf.kind = handler->typestr();
    Batch& batch = batch_of(handler);
    batch.values.push_back(entry.value);
    batch.infos.push_back(param_info(entry.path, leaf.kind));
    batch.args.push_back(args);
  }

  ParamInfo param_info(const KeyPath& path, const std::string& typestr) const {
    ParamInfo info;
    info.name = param_name(path);
    info.keypath = path;
    info.parent_dir = directory_;
    info.is_ocdbt_checkpoint = context_.options->use_ocdbt;
    info.use_compression = context_.options->use_compression;
    info.use_zarr3 = context_.options->use_zarr3;
    info.ocdbt_target_data_file_size = args_.ocdbt_target_data_file_size;
    info.value_typestr = typestr;
    info.byte_limiter = context_.limiter;
    info.device_host_byte_limiter = context_.device_host_limiter;
    info.is_prioritized_key_fn = context_.options->is_prioritized_key_fn;
    info.writer = collected_;
    return info;
  }

  Batch& batch_of(const TypeHandlerPtr& handler) {
    const auto it = std::find_if(batches_.begin(), batches_.end(),
                                 [&](const Batch& batch) { return batch.handler == handler; });
    if (it != batches_.end()) return *it;
    batches_.push_back({handler, {}, {}, {}});
    return batches_.back();
  }

  // The leaves of the tree come first, in tree order, followed by the unlisted ones.
  [[nodiscard]] std::string rich_types(const std::vector<SaveLeaf>& leaves) const {
    std::size_t next = 0;
    return rich_types_text(args_.item, [&](const KeyPath& /*path*/, const Tree& /*leaf*/) {
      return leaf_metadata(leaves[next++]);
    });
  }

  std::function<void(std::uint64_t)> write_later(SaveItem item, SaveOptions options) {
    return [item = std::make_shared<SaveItem>(std::move(item)), options = std::move(options),
            directory = directory_, collected = collected_, group = context_.group,
            executor = context_.executor](std::uint64_t memory) mutable {
      try {
        options.resources.memory = memory;
        make_directories(directory);
        write_pytree_item(directory, *item, options,
                          executor != nullptr ? *executor : default_executor(), *group);
      } catch (...) {
        collected->fail(std::current_exception());
        throw;
      }
    };
  }

  std::string directory_;
  const PyTreeSaveArgs& args_;
  const SaveContext& context_;
  std::shared_ptr<CollectedItem> collected_;
  std::vector<TreeEntry> entries_;
  std::vector<SaveLeaf> leaves_;
  std::vector<Batch> batches_;
};

}  // namespace

PreparedSave prepare_save(const std::string& directory, const PyTreeSaveArgs& args,
                          const SaveContext& context) {
  return Saver(directory, args, context).prepare();
}

}  // namespace cairn::inline v0::orbax
