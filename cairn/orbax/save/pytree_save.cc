// pytree_save.cc -- passes leaves to their handlers, writes the values that the handlers add, and
// writes the tree's metadata last.
#include <cairn/orbax/save/pytree_save.h>

#include <cairn/base/executor.h>
#include <cairn/base/memory/raw_bytes.h>
#include <cairn/base/observer/observe.h>
#include <cairn/handlers/leaf_args.h>
#include <cairn/orbax/open.h>
#include <cairn/orbax/save/collected_item.h>
#include <cairn/tree/metadata/key_types.h>
#include <cairn/tree/metadata/rich_types.h>
#include <cairn/tree/names.h>

#include <algorithm>
#include <span>
#include <string>
#include <typeindex>
#include <utility>
#include <vector>

namespace cairn::inline v0::orbax {
namespace {

// Smaller chunks cost more in requests than they save in bytes.
constexpr std::int64_t kSmallChunk = std::int64_t{1} << 20U;

// All leaves of one handler.
struct Batch {
  TypeHandlerPtr handler;
  std::string typestr;
  LargeVector<Tree> values;
  LargeVector<ParamInfo> infos;
  LargeVector<SaveArgs> args;
};

SavingProcess saving_process(const distributed::ProcessGroup& group) {
  return {.index = group.index(),
          .count = group.count(),
          .is_primary = group.is_primary(),
          .writes_separately = group.writes_separately()};
}

// Returns the settings that must be equal in all processes, in addition to the arrays. Processes
// that write separately may use different folder names.
std::string describe(const std::string& directory, const SaveContext& context) {
  const SaveOptions& options = context.options;
  const distributed::ProcessGroup& group = *context.group;
  const std::string& earlier = context.reuse.from;
  return format_text(options.use_ocdbt, options.use_zarr3) +
         (options.chunk_bytes ? ", chunks of " + std::to_string(*options.chunk_bytes) + " bytes"
                              : "") +
         (options.durability == Durability::kUnsynced ? ", unsynced" : "") +
         (group.writes_separately() ? "" : ", in " + directory) +
         (group.writes_separately() || earlier.empty() ? "" : ", sharing with " + earlier);
}

// Throws if an array's metadata_key cannot be used: a chunk may have the same key, Zarr v3 always
// uses zarr.json, and the validation after a merge treats an array without .zarray as damaged.
void check_metadata_keys(std::span<const StoreArray> arrays, const SaveContext& context) {
  for (const StoreArray& array : arrays) {
    if (array.metadata_key.empty()) continue;
    const std::string what = array.name + ": metadata_key '" + array.metadata_key + "' ";
    if (array.metadata_key.find_first_not_of("0123456789./") == std::string::npos)
      throw Error(Code::kInvalidArgument, what + "has the form of a chunk's key");
    if (context.options.use_zarr3)
      throw Error(Code::kInvalidArgument,
                  what + "is for Zarr v2; the metadata of Zarr v3 is always zarr.json");
    if (context.options.use_ocdbt && context.validates_merge)
      throw Error(Code::kInvalidArgument,
                  what +
                      "makes an array without .zarray, which the check of the finished database "
                      "reports as damage. Set enable_post_merge_validation or use_ocdbt to false");
  }
}

void report_compression(const Observer& observer, std::string_view path,
                        const CompressionReport& report) {
  if (report.reason.empty()) return;
  const auto number = [](std::uint64_t n) { return static_cast<std::int64_t>(n); };
  observe(observer, EventLevel::kInfo, "save.compression",
          {{"path", path},
           {"compressed_bytes", number(report.compressed_bytes)},
           {"compressed_size", number(report.compressed_size)},
           {"raw_bytes", number(report.raw_bytes)},
           {"incompressible_bytes", number(report.incompressible_bytes)},
           {"store_rate", report.store_rate},
           {"coder_rate", report.coder_rate},
           {"reason", report.reason}});
}

// Leaves whose arguments are worth a warning: their number, and the name of the first.
struct Noted {
  std::int64_t count = 0;
  std::string first;
  void add(const std::string& name) {
    if (count++ == 0) first = name;
  }
  void report(const Observer& observer, std::string_view event) const {
    if (count > 0)
      observe(observer, EventLevel::kWarning, event, {{"leaf", first}, {"leaves", count}});
  }
};

class Saver {
 public:
  Saver(OutputFolder directory, const Tree& tree, const SaveContext& context)
      : directory_(std::move(directory)),
        tree_(tree),
        context_(context),
        collected_(std::make_shared<CollectedItem>(
            context.background, saving_process(*context.group),
            context.executor != nullptr ? *context.executor : default_executor(),
            context.staging)) {}

  PreparedSave prepare() {
    std::vector<TreeEntry> entries = flatten(tree_, DictOrder::kSorted);
    const std::vector<SaveArgs> args = save_args_for(entries, tree_, context_.save_args);
    const ParamInfo common = common_info();
    item_.tree.leaves.reserve(entries.size());
    collected_->reserve(entries.size());
    for (std::size_t i = 0; i < entries.size(); ++i)
      add(std::move(entries[i]), args[i], common, entries.size() - i);
    aggregated_.report(context_.observer, "save.aggregate_ignored");
    small_chunks_.report(context_.observer, "save.small_chunks");
    ignored_chunk_sizes_.report(context_.observer, "save.chunk_byte_size_ignored");
    TypeHandler::Futures futures;
    for (const Batch& batch : std::exchange(batches_, {}))
      for (auto& future : batch.handler->serialize(batch.values, batch.infos, batch.args))
        futures.push_back(std::move(future));
    collected_->move_to(item_);
    for (auto& [position, type] : stored_elsewhere_) {
      LeafMetadata& leaf = item_.tree.leaves[position];
      leaf = leaf_metadata(std::move(leaf.path), std::move(type));
    }
    check_metadata_keys(item_.arrays, context_);
    item_.tree.custom_metadata = context_.options.item_metadata;
    item_.tree.key_types = key_types();
    item_.reuse = context_.reuse;
    if (context_.support_rich_types) item_.tree.rich_types = rich_types();
    if (context_.progress != nullptr) context_.progress->expect(item_);
    item_.values_written = [collected = collected_, futures = std::move(futures)] {
      collected->set_written();
      for (const auto& future : futures) future.get();
    };
    return {.write = write_later(), .description = describe(directory_.path(), context_)};
  }

 private:
  // Adds the leaf to the tree, and its value to the batch of its handler. `left` counts the leaves
  // from this one on.
  void add(TreeEntry entry, const SaveArgs& args, const ParamInfo& common, std::size_t left) {
    if (const auto* empty = std::get_if<EmptyNode>(&entry.value.value()))
      return add_leaf(std::move(entry.path), empty_node_name(stored_as(*empty)));
    if (std::holds_alternative<Placeholder>(entry.value.value()))
      return add_leaf(std::move(entry.path), "placeholder");
    if (const auto* type = entry.value.custom<LeafType>()) {
      // a placeholder until the handlers are called: no handler has a value for it
      stored_elsewhere_.emplace_back(item_.tree.leaves.size(), type->value_type);
      return add_leaf(std::move(entry.path), "placeholder");
    }
    if (entry.value.custom<ValueMetadata>() != nullptr)
      throw Error(Code::kInvalidArgument, leaf_text(entry.path) +
                                              ": is the metadata() of a stored leaf, which cannot "
                                              "be saved; restore the tree first");
    Batch& batch = batch_for(entry, left);
    ParamInfo& info = batch.infos.emplace_back(common);
    info.name = param_name(entry.path);
    info.keypath = entry.path;
    info.value_typestr = batch.typestr;
    batch.values.push_back(std::move(entry.value));
    batch.args.push_back(args);
    if (args.aggregate) aggregated_.add(info.name);
    if (args.chunk_byte_size && (args.write_chunk_shape || args.read_chunk_shape))
      ignored_chunk_sizes_.add(info.name);
    else if (args.chunk_byte_size && *args.chunk_byte_size < kSmallChunk)
      small_chunks_.add(info.name);
    add_leaf(std::move(entry.path), info.value_typestr);
  }

  [[nodiscard]] EmptyNode stored_as(EmptyNode node) const {
    return node == EmptyNode::kNamedTuple && context_.named_tuples_as_none ? EmptyNode::kNone
                                                                           : node;
  }

  void add_leaf(KeyPath path, std::string_view kind) {
    item_.tree.leaves.push_back(leaf_metadata(std::move(path), std::string(kind)));
  }

  // What the handlers learn about every leaf.
  [[nodiscard]] ParamInfo common_info() const {
    const SaveOptions& options = context_.options;
    ParamInfo info;
    info.parent_dir = directory_.path();
    info.is_ocdbt_checkpoint = options.use_ocdbt;
    info.use_compression = options.compression.method != Compression::Method::kNone;
    info.use_zarr3 = options.use_zarr3;
    info.ocdbt_target_data_file_size = options.target_file_bytes;
    info.byte_limiter = context_.limiter;
    info.is_prioritized_key_fn = context_.is_prioritized_key_fn;
    info.observer = context_.observer;
    info.writer = collected_;
    return info;
  }

  // Neighbours in a tree usually have one type, so the handler of the last leaf is kept.
  Batch& batch_for(const TreeEntry& entry, std::size_t left) {
    const std::type_index type = leaf_type(entry.value);
    if (type == last_type_) return batches_[last_batch_];
    const TypeHandlerPtr handler = with_context(
        [&] { return "type handler lookup failed for " + quoted_leaf_text(entry.path); },
        [&] { return context_.registry->get(type); });
    last_batch_ = batch_of(handler, left);
    last_type_ = type;
    return batches_[last_batch_];
  }

  std::size_t batch_of(const TypeHandlerPtr& handler, std::size_t left) {
    const auto it = std::find_if(batches_.begin(), batches_.end(),
                                 [&](const Batch& batch) { return batch.handler == handler; });
    if (it != batches_.end()) return static_cast<std::size_t>(it - batches_.begin());
    Batch& batch = batches_.emplace_back(Batch{handler, handler->typestr(), {}, {}, {}});
    batch.values.reserve(left);
    batch.infos.reserve(left);
    batch.args.reserve(left);
    return batches_.size() - 1;
  }

  [[nodiscard]] std::string key_types() const {
    if (context_.options.key_types.empty()) return "";
    std::vector<const KeyPath*> paths;
    paths.reserve(item_.tree.leaves.size());
    for (const LeafMetadata& leaf : item_.tree.leaves) paths.push_back(&leaf.path);
    check_key_types(context_.options.key_types, paths, Code::kInvalidArgument);
    return key_types_text(context_.options.key_types);
  }

  [[nodiscard]] std::string rich_types() const {
    std::size_t next = 0;
    return rich_types_text(
        tree_,
        [&](const KeyPath& /*path*/, const Tree& /*leaf*/) -> const LeafMetadata& {
          return item_.tree.leaves[next++];
        },
        item_.tree.leaves.size());
  }

  std::function<void(const WriteLimits&)> write_later() {
    return [item = std::make_shared<SaveItem>(std::move(item_)), options = context_.options,
            directory = directory_, collected = collected_, group = context_.group,
            executor = context_.executor,
            observer = context_.observer](const WriteLimits& limits) mutable {
      try {
        const Stopwatch watch;
        const auto bytes = static_cast<std::int64_t>(stored_bytes(*item));
        options.resources.memory = limits.memory;
        options.observer = observer;
        item->copies = limits.copies;
        directory.make(Durability::kSynced);
        const WrittenItem written =
            write_pytree_item(directory, std::move(*item), options,
                              executor != nullptr ? *executor : default_executor(), *group);
        observe(observer, EventLevel::kInfo, "save.item_written",
                {{"path", directory.path()},
                 {"bytes", bytes},
                 {"stored_bytes", static_cast<std::int64_t>(written.stored_bytes)}},
                watch.elapsed());
        report_compression(observer, directory.path(), written.compression);
      } catch (...) {
        collected->fail(std::current_exception());
        throw;
      }
    };
  }

  OutputFolder directory_;
  const Tree& tree_;
  const SaveContext& context_;
  std::shared_ptr<CollectedItem> collected_;
  SaveItem item_;
  std::vector<std::pair<std::size_t, std::string>> stored_elsewhere_;  // leaves, and their types
  std::vector<Batch> batches_;
  std::type_index last_type_ = typeid(void);  // of the last leaf that has a handler
  std::size_t last_batch_ = 0;                // the batch of that handler
  Noted aggregated_;
  Noted small_chunks_;
  Noted ignored_chunk_sizes_;
};

}  // namespace

PreparedSave prepare_save(const OutputFolder& directory, const Tree& tree,
                          const SaveContext& context) {
  return Saver(directory, tree, context).prepare();
}

}  // namespace cairn::inline v0::orbax
