// checkpointer.cc -- runs checkpoint handlers inside directories that appear complete or not at
// all.
#include <cairn/checkpointer.h>
#include <cairn/io/file.h>
#include <cairn/orbax/layout/layout.h>

#include <chrono>
#include <future>
#include <mutex>
#include <utility>

namespace cairn::inline v0 {
namespace {

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
Checkpointer::Checkpointer(PyTreeCheckpointHandlerOptions options) : handler_(std::move(options)) {}

void Checkpointer::save(const std::string& path, const PyTreeSaveArgs& args,
                        const CheckpointerSaveOptions& options) {
  handler_.start_checkpoint(path, args, options, false)();
}

Tree Checkpointer::restore(const std::string& path, const PyTreeRestoreArgs& args) const {
  return handler_.restore_when([&] { check_finished(path); }, path, args);
}

PyTreeMetadata Checkpointer::metadata(const std::string& path) const {
  check_finished(path);
  return handler_.metadata(path);
}

struct AsyncCheckpointer::State {
  explicit State(PyTreeCheckpointHandlerOptions options) : handler(std::move(options)) {}

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
  auto rest = state_->handler.start_checkpoint(path, args, options, true);
  const std::lock_guard lock(state_->mutex);
  state_->save = std::async(std::launch::async, std::move(rest));
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
