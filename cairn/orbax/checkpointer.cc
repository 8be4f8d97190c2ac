// checkpointer.cc -- runs checkpoint handlers inside directories that appear complete or not at
// all.
#include <cairn/base/errors.h>
#include <cairn/base/text.h>
#include <cairn/io/directory.h>
#include <cairn/io/file.h>
#include <cairn/kvstore/folders/resolve.h>
#include <cairn/orbax/checkpointer.h>
#include <cairn/orbax/commit/background_task.h>
#include <cairn/orbax/commit/in_place.h>
#include <cairn/orbax/commit/pending_checkpoint.h>
#include <cairn/orbax/layout/layout.h>
#include <cairn/orbax/restore/restored_items.h>
#include <cairn/orbax/save/composite_args.h>

#include <functional>
#include <utility>

namespace cairn::inline v0 {
namespace {

// A save to a store writes to the final names, so its marker alone says that it has ended.
void check_finished_in_store(const std::string& path, orbax::CommitRule rule,
                             const StoreOptions& store) {
  const std::string url = normal_path(path);
  const FolderPtr folder = open_folder(url, store);
  const std::string why = rule.protocol == CommitProtocol::kCommitMarker &&
                                  !folder->exists(orbax::join(url, orbax::kCommitFile))
                              ? "it has no " + std::string(orbax::kCommitFile)
                              : orbax::why_unfinished(folder);
  if (why.empty()) return;
  throw Error(Code::kFailedPrecondition, path + ": is an incomplete checkpoint: " + why +
                                             "; its save was interrupted or is still under way");
}

void check_finished(const std::string& path, orbax::CommitRule rule, const StoreOptions& store) {
  if (is_store_url(path)) return check_finished_in_store(path, rule, store);
  if (file_exists(path) && !directory_exists(path))
    throw Error(
        Code::kInvalidArgument,
        path + ": is " + kind_at(path) + "; a checkpoint is a folder, so give the folder it is in");
  if (!directory_exists(path)) throw Error(Code::kNotFound, path + ": there is no such checkpoint");
  if (path.find(orbax::kTemporaryMark) != std::string::npos)
    throw Error(
        Code::kFailedPrecondition,
        path + ": is an incomplete checkpoint; its save was interrupted or is still under way");
  if (rule.protocol == CommitProtocol::kAtomicRename) return;
  const std::string full = absolute_path(path);
  if (!orbax::is_committed(Directory::open(parent_of(full)), std::string(name_of(full)), rule))
    throw Error(Code::kFailedPrecondition, path + ": is an incomplete checkpoint: it has no " +
                                               std::string(orbax::kCommitFile) +
                                               "; its save was interrupted or is still under way");
}

orbax::CompositeArgs args_of(const CheckpointerSaveOptions& options) {
  return {.custom_metadata = options.custom_metadata,
          .if_exists = options.if_exists,
          .v1 = options.v1,
          .progress = options.progress,
          .cancel = options.cancel};
}

// The checkpoint of one tree, which is the checkpoint itself or its only item.
orbax::CompositeArgs composite(const PyTreeSaveArgs& tree, const CheckpointerSaveOptions& options) {
  orbax::CompositeArgs args = args_of(options);
  if (options.item) {
    orbax::check_item_name(*options.item);
    orbax::add_tree(*options.item, tree, args);
  } else {
    args.trees.push_back({.folder = "", .args = orbax::borrowed(tree)});
  }
  return args;
}

orbax::CompositeArgs composite(const CheckpointItems& items,
                               const CheckpointerSaveOptions& options) {
  if (options.item)
    invalid_argument("the option 'item' names one tree; the items have names of their own");
  if (options.v1) invalid_argument("the option 'v1' is for one tree, as its item");
  if (items.empty()) invalid_argument("there are no items to save");
  orbax::CompositeArgs args = args_of(options);
  for (const auto& [name, item] : items) orbax::add_item(name, item, args);
  return args;
}

}  // namespace

Checkpointer::Checkpointer() : Checkpointer(PyTreeCheckpointHandlerOptions{}) {}
Checkpointer::Checkpointer(PyTreeCheckpointHandlerOptions options)
    : commit_protocol_(options.commit_protocol),
      allow_legacy_atomic_rename_(options.allow_legacy_atomic_rename),
      store_(options.store),
      handler_(std::move(options)) {}

void Checkpointer::save(const std::string& path, const PyTreeSaveArgs& args,
                        const CheckpointerSaveOptions& options) {
  handler_.start_checkpoint(
      path, [&] { return composite(args, options); }, false)();
}

void Checkpointer::save_items(const std::string& path, const CheckpointItems& items,
                              const CheckpointerSaveOptions& options) {
  handler_.start_checkpoint(
      path, [&] { return composite(items, options); }, false)();
}

Tree Checkpointer::restore(const std::string& path, const PyTreeRestoreArgs& args) const {
  return handler_.restore_when(
      [&] {
        check_finished(path, {commit_protocol_, allow_legacy_atomic_rename_}, store_);
      },
      path, args);
}

RestoredItems Checkpointer::restore_items(const std::string& path, const ItemRequests& requests,
                                          const FilesReaders& readers) const {
  check_finished(path, {commit_protocol_, allow_legacy_atomic_rename_}, store_);
  return orbax::restore_items(path, requests, {handler_, readers, handler_.observer(), store_});
}

PyTreeMetadata Checkpointer::metadata(const std::string& path) const {
  check_finished(path, {commit_protocol_, allow_legacy_atomic_rename_}, store_);
  return handler_.metadata(path);
}

struct AsyncCheckpointer::State {
  explicit State(PyTreeCheckpointHandlerOptions options) : checkpointer(std::move(options)) {}

  void start(const std::string& path, const std::function<orbax::CompositeArgs()>& make_args) {
    save.start(checkpointer.handler_.start_checkpoint(path, make_args, true));
  }

  Checkpointer checkpointer;
  orbax::BackgroundTask save;
};

AsyncCheckpointer::AsyncCheckpointer() : AsyncCheckpointer(PyTreeCheckpointHandlerOptions{}) {}
AsyncCheckpointer::AsyncCheckpointer(PyTreeCheckpointHandlerOptions options)
    : state_(std::make_unique<State>(std::move(options))) {}
AsyncCheckpointer::~AsyncCheckpointer() = default;

void AsyncCheckpointer::save(const std::string& path, const PyTreeSaveArgs& args,
                             const CheckpointerSaveOptions& options) {
  wait_until_finished();
  state_->start(path, [&] { return composite(args, options); });
}

void AsyncCheckpointer::save_items(const std::string& path, const CheckpointItems& items,
                                   const CheckpointerSaveOptions& options) {
  wait_until_finished();
  state_->start(path, [&] { return composite(items, options); });
}

void AsyncCheckpointer::wait_until_finished() { state_->save.wait(); }

void AsyncCheckpointer::check_for_errors() { state_->save.check(); }

bool AsyncCheckpointer::is_saving_in_progress() const { return state_->save.is_running(); }

Tree AsyncCheckpointer::restore(const std::string& path, const PyTreeRestoreArgs& args) {
  wait_until_finished();
  return state_->checkpointer.restore(path, args);
}

RestoredItems AsyncCheckpointer::restore_items(const std::string& path,
                                               const ItemRequests& requests,
                                               const FilesReaders& readers) {
  wait_until_finished();
  return state_->checkpointer.restore_items(path, requests, readers);
}

PyTreeMetadata AsyncCheckpointer::metadata(const std::string& path) const {
  return state_->checkpointer.metadata(path);
}

void AsyncCheckpointer::close() {
  wait_until_finished();
  state_->checkpointer.close();
}

}  // namespace cairn::inline v0
