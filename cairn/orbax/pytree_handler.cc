// pytree_handler.cc -- PyTreeCheckpointHandler: options, background saves, finalizing, metadata.
#include <cairn/array/staging.h>
#include <cairn/base/byte_io.h>
#include <cairn/base/cancellation.h>
#include <cairn/base/errors.h>
#include <cairn/base/executor.h>
#include <cairn/base/observer/observe.h>
#include <cairn/distributed/consistency.h>
#include <cairn/io/directory.h>
#include <cairn/io/file.h>
#include <cairn/kvstore/folders/resolve.h>
#include <cairn/orbax/background_copy.h>
#include <cairn/orbax/byte_limiter.h>
#include <cairn/orbax/byte_limits.h>
#include <cairn/orbax/checkpointer.h>
#include <cairn/orbax/commit/checkpoint_transaction.h>
#include <cairn/orbax/device_copy_limit.h>
#include <cairn/orbax/layout/layout.h>
#include <cairn/orbax/pytree_checkpoint_handler.h>
#include <cairn/orbax/restore/pytree_restore.h>
#include <cairn/orbax/save/composite_args.h>
#include <cairn/orbax/save/finalize.h>
#include <cairn/orbax/save/pytree_save.h>

#include <algorithm>
#include <chrono>
#include <mutex>
#include <utility>

namespace cairn::inline v0 {
namespace {

constexpr std::int64_t kDefaultFileBytes = std::int64_t{2} << 30U;
// Returns the least number that any process offers, at a position of its message.
std::uint64_t least(const std::vector<Bytes>& messages, std::size_t position) {
  std::uint64_t out = UINT64_MAX;
  for (const Bytes& message : messages) {
    ByteReader in(message);
    in.take(position * sizeof(out));
    out = std::min(out, in.u64());
  }
  return out;
}

// Whether the tree is a container without children, or None.
bool is_empty(const Tree& tree) {
  if (const auto* dict = tree.dict()) return dict->empty();
  if (const auto* list = tree.list()) return list->empty();
  if (const auto* tuple = tree.tuple()) return tuple->items.empty();
  if (const auto* named = tree.named_tuple()) return named->fields.empty();
  return std::holds_alternative<EmptyNode>(tree.value());
}

// Throws unless the arguments can be saved, whatever the leaves are.
void check(const PyTreeSaveArgs& args) {
  if (is_empty(args.item))
    throw Error(Code::kInvalidArgument, "found an empty item: there is nothing to save");
  const std::int64_t file_bytes = args.ocdbt_target_data_file_size.value_or(kDefaultFileBytes);
  if (file_bytes < 0)
    throw Error(Code::kInvalidArgument, "ocdbt_target_data_file_size is " +
                                            std::to_string(file_bytes) +
                                            " bytes; it must not be negative (0: no limit)");
  if (!args.custom_metadata.empty())
    (void)orbax::given_json(args.custom_metadata, "the custom metadata");
}

// Throws for options of saves by a handler alone.
void check_of_checkpoint(const PyTreeSaveArgs& args) {
  const char* const given = args.cancel.stop_possible() ? "cancel"
                            : args.progress             ? "progress"
                                                        : nullptr;
  if (given != nullptr)
    invalid_argument(std::string("PyTreeSaveArgs::") + given +
                     " is of saves by a handler alone; give CheckpointerSaveOptions::" + given);
}

SaveOptions save_options(const PyTreeCheckpointHandlerOptions& options,
                         const PyTreeSaveArgs& args) {
  SaveOptions out;
  out.use_ocdbt = options.use_ocdbt;
  out.use_zarr3 = options.use_zarr3;
  out.compression = options.use_compression ? options.compression : Compression(Compression::kNone);
  out.chunk_bytes = options.chunk_bytes;
  out.durability = options.durability;
  out.target_file_bytes = args.ocdbt_target_data_file_size.value_or(kDefaultFileBytes);
  out.item_metadata = args.custom_metadata;
  out.key_types = args.key_types;
  return out;
}

// The item of the earlier step, unless the tree has a source of its own.
std::string reuse_from(const orbax::CompositeArgs& args, const orbax::CompositeTree& tree) {
  if (!tree.args->reuse_from.empty() || args.reuse_from.empty()) return tree.args->reuse_from;
  return orbax::join(args.reuse_from, tree.folder);
}

void check_not_empty(const std::string& directory) {
  if (directory.empty()) throw Error(Code::kInvalidArgument, "the path of the folder is empty");
}

// The absolute path or the URL of a folder.
std::string full_path(const std::string& directory) {
  check_not_empty(directory);
  const std::string path = normal_path(directory);
  return is_store_url(path) ? path : absolute_path(path);
}

// Does the work, or returns it to be done in the background.
std::function<void()> now_or_later(bool later, std::function<void()> work) {
  if (later) return work;
  work();
  return [] {};
}

}  // namespace

namespace {

// The saves of async_save() that have not ended. Safe for concurrent use.
class BackgroundSaves {
 public:
  void add(std::shared_future<void> save) {
    const std::lock_guard lock(mutex_);
    std::erase_if(saves_, [](const auto& one) {
      return one.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
    });
    saves_.push_back(std::move(save));
  }
  void wait() {
    std::vector<std::shared_future<void>> waiting;
    {
      const std::lock_guard lock(mutex_);
      waiting.swap(saves_);
    }
    for (const auto& save : waiting) save.wait();
  }

 private:
  std::mutex mutex_;
  std::vector<std::shared_future<void>> saves_;
};

}  // namespace

struct PyTreeCheckpointHandler::State {
  explicit State(PyTreeCheckpointHandlerOptions with)
      : options(std::move(with)),
        group(options.multiprocessing_options, options.observer),
        device_copies(options) {
    save_limit = orbax::limit_bytes(options.save_concurrent_gb, options.save_concurrent_bytes,
                                    "save_concurrent");
    restore_limit = orbax::limit_bytes(options.restore_concurrent_gb,
                                       options.restore_concurrent_bytes, "restore_concurrent");
    if (options.resources.memory == 0)
      throw Error(Code::kInvalidArgument, "'memory' is 0 bytes; it must be positive");
    if (options.chunk_bytes && *options.chunk_bytes <= 0)
      orbax::refuse_limit("chunk_bytes", *options.chunk_bytes);
    if (options.aggregate_filename.empty() ||
        options.aggregate_filename.find('/') != std::string::npos)
      throw Error(Code::kInvalidArgument,
                  "'" + options.aggregate_filename + "' cannot be the name of the aggregate file");
    (void)Cancellation({}, options.save_timeout);  // throws for a limit that makes no sense
    if (options.reuse == Reuse::kUnchanged) known = std::make_shared<ValueFingerprints>();
    if (options.resources.threads != 0)
      executor = std::make_unique<Executor>(options.resources.threads);
    staging = std::make_shared<StagingPool>(options.resources.memory);
    if (!registry().has(typeid(ShardedArray)))
      observe(options.observer, EventLevel::kWarning, "registry.no_array_handler", {});
  }

  [[nodiscard]] const TypeHandlerRegistry& registry() const {
    return options.type_handler_registry ? *options.type_handler_registry
                                         : default_type_handler_registry();
  }

  // Runs the part of a save that must end before the caller continues. With several processes, they
  // agree on the rest. Returns the remaining work.
  std::function<void()> start_save(const OutputFolder& directory, const PyTreeSaveArgs& args,
                                   bool background, const std::string& reuse_from,
                                   orbax::SaveProgress& progress, bool without_database = false) {
    const std::lock_guard lock(mutex);
    orbax::PreparedSave prepared;
    distributed::ConsistencyCheck consistency("makes");
    const auto messages = group.gather("save: prepare", distributed::StepKind::kControl, [&] {
      if (closed)
        throw Error(Code::kFailedPrecondition, "the checkpoint handler is closed and cannot save");
      device_copies.regulate();
      check(args);
      if (!args.reuse_from.empty() && known == nullptr)
        throw Error(Code::kInvalidArgument,
                    "reuse_from is set, but the handler's option reuse is not kUnchanged");
      orbax::SaveContext context = save_context(args, background, reuse_from);
      context.progress = &progress;
      if (without_database) context.options.use_ocdbt = false;
      prepared = orbax::prepare_save(directory, args.item, context);
      const std::uint64_t memory =
          std::min(options.resources.memory, static_cast<std::uint64_t>(save_limit));
      consistency.add("the processes do not save in the same way", prepared.description);
      return std::move(ByteWriter()
                           .u64(consistency.digest())
                           .u64(memory)
                           .u64(device_copies.batch_bytes()))
          .take();
    });
    consistency.check(messages, group, "save: other layouts");
    // The chunk layout depends on the limits, and must be equal in all processes.
    const std::uint64_t batch = least(messages, 2);
    const orbax::WriteLimits limits{
        least(messages, 1),
        {batch == orbax::DeviceCopyLimit::kNone ? 0 : batch, device_copies.limiter()}};
    return [write = std::move(prepared.write), limits] { write(limits); };
  }

  [[nodiscard]] orbax::SaveContext save_context(const PyTreeSaveArgs& args, bool background,
                                                const std::string& reuse_from) const {
    return {.options = save_options(options, args),
            .save_args = args.save_args ? &*args.save_args : nullptr,
            .support_rich_types = options.pytree_metadata_options.support_rich_types,
            .named_tuples_as_none = !options.pytree_metadata_options.support_rich_types,
            .validates_merge = options.enable_post_merge_validation,
            .is_prioritized_key_fn = options.is_prioritized_key_fn,
            .registry = &registry(),
            .group = &group,
            .executor = executor.get(),
            .limiter = std::make_shared<ByteLimiter>(save_limit),
            .background = background,
            .staging = staging,
            .observer = options.observer,
            .reuse = {.from = reuse_from,
                      .for_later = known != nullptr,
                      .known = known,
                      .observer = options.observer}};
  }

  // The folder that is written.
  [[nodiscard]] OutputFolder writable(const std::string& directory) const {
    return OutputFolder::at(full_path(directory), options.store);
  }

  // start_save() of a save by the handler itself.
  std::function<void()> start_own_save(const std::string& directory, const PyTreeSaveArgs& args,
                                       bool background) {
    auto progress = std::make_shared<orbax::SaveProgress>(args.progress);
    auto write = start_save(writable(directory), args, background, args.reuse_from, *progress);
    return [progress, write = std::move(write)] { progress->run(write); };
  }

  // Whether a background save copies trees with so many bytes of arrays. Else it reports why not.
  [[nodiscard]] bool copies(const std::string& path, std::uint64_t bytes) const {
    const auto& limit = options.background_copy_bytes;
    if (!limit || bytes <= *limit) return true;
    observe(options.observer, EventLevel::kInfo, "save.not_copied",
            {{"path", path},
             {"bytes", static_cast<std::int64_t>(bytes)},
             {"limit", static_cast<std::int64_t>(*limit)}});
    return false;
  }
  [[nodiscard]] std::uint64_t bytes_to_copy(const Tree& tree) const {
    if (!options.background_copy_bytes) return 0;
    return orbax::bytes_to_copy(tree, options.is_prioritized_key_fn);
  }
  [[nodiscard]] std::uint64_t bytes_to_copy(const orbax::CompositeArgs& args) const {
    std::uint64_t bytes = 0;
    for (const orbax::CompositeTree& tree : args.trees) bytes += bytes_to_copy(tree.args->item);
    return bytes;
  }

  // Null: this handler knows of no files that are synced.
  [[nodiscard]] std::shared_ptr<SyncedFiles> synced_files() const {
    return known ? std::shared_ptr<SyncedFiles>(known, &known->files()) : nullptr;
  }

  // Completes the item after all processes have written. Does not make it durable. `is_alone`: no
  // other process has, so that nothing is to be merged.
  void finalize(const OutputFolder& directory, bool is_alone) const {
    // Processes that write separately have their own folders on their own disks, and each knows
    // only its own data.
    orbax::finalize_item(directory,
                         {.validator = options.array_metadata_validator,
                          .processes = group.is_single() ? 0 : group.count(),
                          .compares = !group.writes_separately() &&
                                      (!is_alone || options.array_metadata_validator != nullptr),
                          .merges = !is_alone,
                          .validates = !options.use_zarr3 && options.enable_post_merge_validation,
                          .threads = options.resources.threads,
                          .registry = &registry(),
                          .observer = options.observer});
  }

  [[nodiscard]] orbax::RestoreContext restore_context() const {
    orbax::RestoreContext context;
    context.options = &options;
    context.registry = &registry();
    context.executor = executor.get();
    context.limiter = std::make_shared<ByteLimiter>(restore_limit);
    context.memory = std::min(options.resources.memory, static_cast<std::uint64_t>(restore_limit));
    return context;
  }

  PyTreeCheckpointHandlerOptions options;
  distributed::ProcessGroup group;
  std::int64_t save_limit = 0;
  std::int64_t restore_limit = 0;
  orbax::DeviceCopyLimit device_copies;
  std::shared_ptr<ValueFingerprints> known;  // of stored values; null: saves reuse nothing
  std::shared_ptr<StagingPool> staging;      // of background saves
  std::unique_ptr<Executor> executor;        // null: the default executor of the process
  std::mutex mutex;
  bool closed = false;
  BackgroundSaves saves;
};

PyTreeCheckpointHandler::PyTreeCheckpointHandler()
    : PyTreeCheckpointHandler(PyTreeCheckpointHandlerOptions{}) {}

PyTreeCheckpointHandler::PyTreeCheckpointHandler(PyTreeCheckpointHandlerOptions options)
    : state_(std::make_unique<State>(std::move(options))) {}

PyTreeCheckpointHandler::~PyTreeCheckpointHandler() { state_->saves.wait(); }

void PyTreeCheckpointHandler::save(const std::string& directory, const PyTreeSaveArgs& args) {
  const Cancellation cancellation(args.cancel, state_->options.save_timeout);
  reporting_failure(state_->options.observer, "save.failed", directory, [&] {
    with_cancellation(cancellation, directory,
                      [&] { state_->start_own_save(directory, args, false)(); });
  });
}

std::vector<std::shared_future<void>> PyTreeCheckpointHandler::async_save(
    const std::string& directory, const PyTreeSaveArgs& args) {
  const Observer& observer = state_->options.observer;
  const Stopwatch watch;
  const Cancellation cancellation(args.cancel, state_->options.save_timeout);
  const bool copies = state_->copies(directory, state_->bytes_to_copy(args.item));
  auto rest = reporting_failure(observer, "save.failed", directory, [&] {
    return with_cancellation(cancellation, directory, [&] {
      return now_or_later(copies, state_->start_own_save(directory, args, copies));
    });
  });
  std::shared_future<void> save =
      std::async(std::launch::async, [&observer, directory, cancellation, rest = std::move(rest)] {
        reporting_failure(observer, "save.failed", directory,
                          [&] { with_cancellation(cancellation, directory, rest); });
      }).share();
  observe(observer, EventLevel::kInfo, "save.blocked", {{"path", directory}}, watch.elapsed());
  state_->saves.add(save);
  return {save};
}

void PyTreeCheckpointHandler::finalize(const std::string& directory) const {
  if (!state_->group.is_primary()) return;
  const OutputFolder folder = state_->writable(directory);
  if (folder.try_open() == nullptr)
    throw Error(Code::kNotFound, folder.path() + ": there is no such folder to finalize");
  state_->finalize(folder, false);
  if (folder.is_local() && state_->options.durability != Durability::kUnsynced)
    sync_tree(folder.path());
}

std::function<void()> PyTreeCheckpointHandler::start_checkpoint(
    const std::string& path, const std::function<orbax::CompositeArgs()>& make_args,
    bool background) {
  State* state = state_.get();
  orbax::CompositeArgs args;
  bool copies = false;
  orbax::before_save(state->group, [&] {
    args = make_args();
    for (const orbax::CompositeTree& tree : args.trees) check_of_checkpoint(*tree.args);
    copies = background && state->copies(path, state->bytes_to_copy(args));
  });
  SaveOptions directory;
  directory.if_exists = args.if_exists;
  directory.v1 = args.v1;
  directory.commit_protocol = state->options.commit_protocol;
  directory.durability = state->options.durability;
  directory.store = state->options.store;
  directory.observer = state->options.observer;
  directory.save_timeout = state->options.save_timeout;
  directory.cancel = args.cancel;
  std::vector<std::string> trees;
  for (const orbax::CompositeTree& tree : args.trees)
    if (tree.format == nullptr) trees.push_back(tree.folder);
  const Stopwatch watch;
  auto of_formats = std::make_shared<std::vector<std::shared_ptr<StepWrite>>>();
  auto rest = orbax::start_save(
      {.path = path,
       .options = directory,
       .content = {.custom_metadata = args.custom_metadata, .items = args.folders},
       .group = state->group,
       .prepare =
           [&](const OutputFolder& folder) {
             auto progress = std::make_shared<orbax::SaveProgress>(args.progress);
             std::vector<std::function<void()>> writes;
             for (const orbax::CompositeTree& tree : args.trees) {
               if (tree.format != nullptr) {
                 of_formats->push_back(tree.format->start(
                     *tree.args, {folder, state->options, state->group, copies, args.progress}));
                 writes.emplace_back([write = of_formats->back()] { write->write(); });
                 continue;
               }
               writes.push_back(state->start_save(folder.child(tree.folder), *tree.args, copies,
                                                  reuse_from(args, tree), *progress,
                                                  tree.without_database));
             }
             return now_or_later(copies || !background, [progress, writes = std::move(writes)] {
               progress->run([&] {
                 for (const auto& write : writes) write();
               });
             });
           },
       .finalize =
           [state, trees, of_formats, files = args.files](const OutputFolder& folder) {
             // To look for the files of others in a store would take requests.
             const bool is_alone = state->group.is_single() && !folder.is_local();
             for (const std::string& tree : trees) state->finalize(folder.child(tree), is_alone);
             for (const orbax::CompositeFiles& one : files) one.write(folder.child(one.folder));
             for (const auto& write : *of_formats) write->finalize();
           },
       .synced = state->synced_files()});
  if (background)
    observe(state->options.observer, EventLevel::kInfo, "save.blocked", {{"path", path}},
            watch.elapsed());
  return rest;
}

Tree PyTreeCheckpointHandler::restore(const std::string& directory,
                                      const PyTreeRestoreArgs& args) const {
  return restore_when([] {}, directory, args);
}

Tree PyTreeCheckpointHandler::restore_when(const std::function<void()>& look,
                                           const std::string& directory,
                                           const PyTreeRestoreArgs& args) const {
  return reporting_failure(state_->options.observer, "restore.failed", directory, [&] {
    return orbax::restore_item(full_path(directory), args, state_->restore_context(), look);
  });
}

const Observer& PyTreeCheckpointHandler::observer() const { return state_->options.observer; }

PyTreeMetadata PyTreeCheckpointHandler::metadata(const std::string& directory) const {
  return orbax::item_metadata(full_path(directory), state_->restore_context());
}

void PyTreeCheckpointHandler::close() {
  {
    const std::lock_guard lock(state_->mutex);
    state_->closed = true;
  }
  state_->saves.wait();
  state_->staging->close();
}

}  // namespace cairn::inline v0
