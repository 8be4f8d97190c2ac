// saver.cc -- binds the saves.
#include "saver.h"

#include "calls.h"
#include "coordinator.h"
#include "forks.h"
#include "gil.h"
#include "lost_keys.h"
#include "options.h"
#include "store_options.h"
#include "values/text.h"
#include "values/trees.h"

#include <cairn/convert.h>
#include <cairn/open.h>
#include <cairn/orbax/checkpointer.h>
#include <cairn/orbax/open.h>

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

namespace nb = nanobind;

namespace cairn::python {
namespace {

// A save through a checkpointer, in the background or by several processes.
struct SaveRequest {
  PyTreeCheckpointHandlerOptions handler;
  PyTreeSaveArgs args;
  CheckpointerSaveOptions target;
};

SaveRequest request_of(nb::handle tree, nb::dict options) {
  const SaveChoices chosen = save_options(options);
  SaveRequest request{
      .handler = handler_options(chosen),
      .args = {},
      .target = {.if_exists = chosen.if_exists, .item = chosen.item, .v1 = chosen.v1}};
  request.args.item = tree_from(tree, &request.args.key_types);
  request.args.ocdbt_target_data_file_size = chosen.target_file_bytes;
  request.args.reuse_from = chosen.reuse_from;
  request.args.custom_metadata = chosen.item_metadata;
  request.target.custom_metadata = chosen.custom_metadata;
  return request;
}

// Every process of the job calls this with its part of the tree.
void save_together(const std::string& path, nb::handle tree, nb::dict options,
                   const std::optional<Job>& job, nb::handle progress) {
  SaveRequest request;
  const auto prepare = [&] {
    request = request_of(tree, options);
    request.handler.multiprocessing_options = job->options();
  };
  const auto work = [&](const CallControl& call) {
    request.target.progress = call.progress;
    request.target.cancel = call.cancel;
    Checkpointer(std::move(request.handler)).save(path, request.args, request.target);
  };
  run_prepared(job, prepare, work, progress, Outcome::kCommit);
}

void save(const PathText& path, nb::handle tree, nb::dict options, nb::handle progress) {
  if (options.contains("background_copy_bytes"))
    throw Error(Code::kInvalidArgument,
                "background_copy_bytes: an option of save_async() and CheckpointManager");
  if (const auto job = Job::take(options)) {
    save_together(path.text, tree, options, job, progress);
    return;
  }
  SaveOptions chosen = save_options(options);
  const Tree read = tree_from(tree, &chosen.key_types);
  const auto work = [&](const CallControl& call) {
    chosen.progress = call.progress;
    chosen.cancel = call.cancel;
    save_orbax(path.text, read, chosen);
  };
  run_long(progress, work, Outcome::kCommit);
}

// ---- files of other formats ----

void save_file(const PathText& path, nb::handle tree, const std::string& format, bool replace,
               const std::string& metadata, nb::handle progress, nb::handle storage_options,
               std::optional<std::int64_t> chunk_bytes, nb::handle processes) {
  const TargetFormat target = parse_target_format(format);
  const std::optional<Job> job = Job::of(nb::borrow(processes));
  Tree read;
  SaveOptions chosen{.chunk_bytes = chunk_bytes,
                     .custom_metadata = metadata,
                     .if_exists = replace ? IfExists::kReplace : IfExists::kFail};
  const auto prepare = [&] {
    chosen.store = store_options(storage_options);
    read = tree_from(tree, &chosen.key_types);
    if (target != TargetFormat::kTorch) warn_of_lost_keys(format, chosen.key_types);
    // In a Distributed Checkpoint, dicts in tuples keep theirs.
    if (target != TargetFormat::kTorch && target != TargetFormat::kDcp) chosen.key_types.clear();
    if (job) chosen.multiprocessing = job->options();
  };
  const auto work = [&](const CallControl& call) {
    chosen.progress = call.progress;
    chosen.cancel = call.cancel;
    save_as(target, path.text, read, chosen);
  };
  run_prepared(job, prepare, work, progress, Outcome::kCommit);
}

// ---- saves in the background ----

class BackgroundSave {
 public:
  BackgroundSave(const PathText& path, nb::handle tree, nb::dict options, nb::handle progress)
      : job_(Job::take(options)) {
    SaveRequest request;
    const auto prepare = [&] {
      request = request_of(tree, options);
      request.target.progress = background_progress(progress, this);
      request.target.cancel = stop_.get_token();
      if (job_) request.handler.multiprocessing_options = job_->options();
      checkpointer_.set(std::make_unique<AsyncCheckpointer>(std::move(request.handler)));
    };
    try {
      run_prepared(job_, prepare, [&](const CallControl& call) {
        const std::stop_callback interrupted(call.cancel, [&] { stop_.request_stop(); });
        checkpointer_->save(path.text, request.args, request.target);
      });
    } catch (...) {
      const WithoutGil unlocked;  // a save that has begun ends first
      checkpointer_.reset();
      throw;
    }
  }
  BackgroundSave(const BackgroundSave&) = delete;
  BackgroundSave& operator=(const BackgroundSave&) = delete;
  // The background thread takes Python's lock when it gives borrowed objects back.
  ~BackgroundSave() {
    const WithoutGil unlocked;
    checkpointer_.reset();
  }

  void cancel() {
    stop_.request_stop();
    if (job_) job_->cancel();
  }
  [[nodiscard]] bool is_running() const { return checkpointer_->is_saving_in_progress(); }
  void wait() {
    checkpointer_.check_is_here("the save");
    refuse_in_own_progress(this);
    run_long(job_, [&](const CallControl& call) {
      // Without other processes, a save ends soon and Ctrl-C can wait for it.
      const std::stop_callback interrupted(call.cancel, [&] {
        if (job_) stop_.request_stop();
      });
      checkpointer_->wait_until_finished();
    });
  }

 private:
  std::stop_source stop_;
  std::optional<Job> job_;
  OwnedByProcess<AsyncCheckpointer> checkpointer_;
};

}  // namespace

void define_saver(nb::module_& module) {
  module.def("save", save, nb::arg("path"), nb::arg("tree").none(), nb::arg("options"),
             nb::arg("progress").none() = nb::none());
  module.def(
      "save_format",
      [](const PathText& path) {
        return std::string(target_format_name(save_format_of(path.text)));
      },
      nb::arg("path"));
  module.def("save_file", save_file, nb::arg("path"), nb::arg("tree").none(), nb::arg("format"),
             nb::arg("replace"), nb::arg("metadata"), nb::arg("progress").none() = nb::none(),
             nb::arg("storage_options").none() = nb::none(),
             nb::arg("chunk_bytes").none() = nb::none(), nb::arg("processes").none() = nb::none());
  nb::class_<BackgroundSave>(module, "BackgroundSave", "A save that goes on in the background.")
      .def(nb::init<const PathText&, nb::handle, nb::dict, nb::handle>(), nb::arg("path"),
           nb::arg("tree").none(), nb::arg("options"), nb::arg("progress").none() = nb::none())
      .def("cancel", &BackgroundSave::cancel)
      .def("is_running", &BackgroundSave::is_running)
      .def("wait", &BackgroundSave::wait);
}

}  // namespace cairn::python
