// checkpointer.cc -- runs checkpoint handlers inside directories that appear complete or not at
// all.
#include <cairn/checkpointer.h>
#include <cairn/io/file.h>
#include <cairn/orbax/layout/layout.h>
#include <cairn/orbax/save/checkpoint_transaction.h>

#include <chrono>
#include <future>
#include <mutex>
#include <utility>

namespace cairn::inline v0 {
namespace {

SaveOptions directory_options(const CheckpointerSaveOptions& options) {
  SaveOptions out;
  out.if_exists = options.if_exists;
  return out;
}

void check_finished(const std::string& path) {
  if (file_exists(path) && !directory_exists(path))
    throw Error(Code::kInvalidArgument,
                path + ": is a file; a checkpoint is a folder, so give the folder it is in");
  if (!directory_exists(path)) throw Error(Code::kNotFound, path + ": there is no such checkpoint");
  if (path.find(orbax::kTemporaryMark) != std::string::npos)
    throw Error(
        Code::kFailedPrecondition,
        path + ": is an incomplete checkpoint; its save was interrupted or is still under way");
}

}  // namespace

Checkpointer::Checkpointer() : Checkpointer(PyTreeCheckpointHandlerOptions{}) {}
Checkpointer::Checkpointer(PyTreeCheckpointHandlerOptions options)
    : multiprocessing_(options.multiprocessing_options), handler_(std::move(options)) {}

void Checkpointer::save(const std::string& path, const PyTreeSaveArgs& args,
                        const CheckpointerSaveOptions& options) {
  orbax::CheckpointTransaction transaction(path, directory_options(options),
                                           options.custom_metadata,
                                           distributed::ProcessGroup(multiprocessing_));
  handler_.save(transaction.folder(), args);
  transaction.commit([&] { handler_.finalize(transaction.folder()); });
}

Tree Checkpointer::restore(const std::string& path, const PyTreeRestoreArgs& args) const {
  return handler_.restore_when([&] { check_finished(path); }, path, args);
}

PyTreeMetadata Checkpointer::metadata(const std::string& path) const {
  check_finished(path);
  return handler_.metadata(path);
}

struct AsyncCheckpointer::State {
  explicit State(PyTreeCheckpointHandlerOptions options)
      : multiprocessing(options.multiprocessing_options), handler(std::move(options)) {}

  MultiprocessingOptions multiprocessing;
  PyTreeCheckpointHandler handler;
  std::mutex mutex;
  // valid while a save is in progress, or has ended and its result is not yet collected
  std::future<void> save;
};

AsyncCheckpointer::AsyncCheckpointer() : AsyncCheckpointer(PyTreeCheckpointHandlerOptions{}) {}
AsyncCheckpointer::AsyncCheckpointer(PyTreeCheckpointHandlerOptions options)
    : state_(std::make_unique<State>(std::move(options))) {}
AsyncCheckpointer::~AsyncCheckpointer() {
  if (state_->save.valid()) state_->save.wait();
}

void AsyncCheckpointer::save(const std::string& path, const PyTreeSaveArgs& args,
                             const CheckpointerSaveOptions& options) {
  wait_until_finished();
  const auto transaction = std::make_shared<orbax::CheckpointTransaction>(
      path, directory_options(options), options.custom_metadata,
      distributed::ProcessGroup(state_->multiprocessing));
  auto written = state_->handler.async_save(transaction->folder(), args);
  const std::lock_guard lock(state_->mutex);
  state_->save = std::async(
      std::launch::async, [handler = &state_->handler, transaction, written = std::move(written)] {
        for (const auto& future : written) future.get();
        transaction->commit([&] { handler->finalize(transaction->folder()); });
      });
}

void AsyncCheckpointer::wait_until_finished() {
  std::future<void> save;
  {
    const std::lock_guard lock(state_->mutex);
    save = std::move(state_->save);
  }
  if (save.valid()) save.get();
}

void AsyncCheckpointer::check_for_errors() {
  {
    const std::lock_guard lock(state_->mutex);
    if (!state_->save.valid() ||
        state_->save.wait_for(std::chrono::seconds(0)) != std::future_status::ready)
      return;
  }
  wait_until_finished();
}

Tree AsyncCheckpointer::restore(const std::string& path, const PyTreeRestoreArgs& args) {
  wait_until_finished();
  return state_->handler.restore_when([&] { check_finished(path); }, path, args);
}

PyTreeMetadata AsyncCheckpointer::metadata(const std::string& path) const {
  check_finished(path);
  return state_->handler.metadata(path);
}

void AsyncCheckpointer::close() {
  wait_until_finished();
  state_->handler.close();
}

}  // namespace cairn::inline v0
