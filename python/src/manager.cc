// manager.cc -- binds CheckpointManager.
#include "manager.h"

#include "calls.h"
#include "coordinator.h"
#include "forks.h"
#include "gil.h"
#include "lost_keys.h"
#include "options.h"
#include "values/text.h"
#include "values/trees.h"

#include <cairn/checkpoint_manager.h>
#include <cairn/steps.h>

#include <nanobind/stl/chrono.h>
#include <nanobind/stl/function.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/set.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <array>
#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace nb = nanobind;

namespace cairn::python {
namespace {

template <class T>
void take(nb::dict options, const char* name, T& into) {
  if (!options.contains(name)) return;
  const nb::object value = options[name];
  PyDict_DelItemString(options.ptr(), name);
  if (value.is_none()) return;
  if (!nb::try_cast(value, into))
    throw Error(Code::kInvalidArgument, std::string(name) + ": " +
                                            nb::cast<std::string>(nb::repr(value)) +
                                            " is of a type that the option does not take");
}

// Options of a single save that a manager does not have, and what it has in their place.
constexpr std::array<std::pair<const char*, const char*>, 6> kOfOneSave = {
    {{"v1", "a manager's steps are those of version 0; cairn.orbax.v1.training has version 1"},
     {"reuse_from", "a manager shares with its latest step; give reuse_unchanged"},
     {"item", "a manager saves a tree as the item 'default' of its step"},
     {"custom_metadata", "give metadata to save()"},
     {"item_metadata", "give it to save()"},
     {"if_exists", "a manager replaces no step; delete it first"}}};

std::chrono::nanoseconds duration_of(const char* name, double seconds) {
  constexpr double kLongest = 9e9;  // nanoseconds in 64 bits end at 9.2e9 seconds
  if (!(seconds > 0 && seconds < kLongest))
    throw Error(Code::kInvalidArgument, std::string(name) + ": " + std::to_string(seconds) +
                                            " is not a positive number of seconds");
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
      std::chrono::duration<double>(seconds));
}

void take_format(nb::dict options, CheckpointManagerOptions& result) {
  std::string format = "orbax";
  take(options, "format", format);
  if (format == "orbax") return;
  if (format != "dcp")
    throw Error(Code::kInvalidArgument, "format: '" + format + "' is not 'orbax' or 'dcp'");
  if (options.contains("target_file_bytes"))
    throw Error(Code::kInvalidArgument, "target_file_bytes: steps of 'dcp' have no such option");
  result.step_format = distributed_checkpoint_steps();
}

// Takes the options of CheckpointManagerOptions under their names; those that remain are options of
// the saves, of which `target_file_bytes` belongs to each save.
CheckpointManagerOptions manager_options(nb::dict options, std::int64_t& target_file_bytes) {
  CheckpointManagerOptions result;
  take(options, "save_interval_steps", result.save_interval_steps);
  take(options, "save_on_steps", result.save_on_steps);
  take(options, "is_preempted", result.is_preempted);
  take(options, "max_to_keep", result.max_to_keep);
  take(options, "keep_period", result.keep_period);
  std::optional<double> seconds;
  take(options, "keep_time_interval", seconds);
  if (seconds) result.keep_time_interval = duration_of("keep_time_interval", *seconds);
  std::string best_metric;
  take(options, "best_metric", best_metric);
  if (!best_metric.empty()) result.best_fn = metric(best_metric);
  take(options, "best_fn", result.best_fn);
  std::string mode = "max";
  take(options, "best_mode", mode);
  if (mode != "max" && mode != "min")
    throw Error(Code::kInvalidArgument, "best_mode: '" + mode + "' is not 'max' or 'min'");
  result.best_mode = mode == "min" ? BestMode::kMin : BestMode::kMax;
  take(options, "keep_checkpoints_without_metrics", result.keep_checkpoints_without_metrics);
  take(options, "step_prefix", result.step_name_format.prefix);
  take(options, "step_digits", result.step_name_format.digits);
  take(options, "step_separator", result.step_name_format.separator);
  take_format(options, result);
  take(options, "create", result.create);
  take(options, "read_only", result.read_only);
  take(options, "cleanup_tmp_directories", result.cleanup_tmp_directories);
  std::string todelete;
  take(options, "todelete_subdir", todelete);
  if (!todelete.empty()) result.todelete_subdir = todelete;
  take(options, "enable_background_delete", result.enable_background_delete);
  take(options, "root_metadata", result.root_metadata);
  take(options, "enable_async_checkpointing", result.enable_async_checkpointing);
  take(options, "prevent_write_metrics", result.prevent_write_metrics);
  bool reuse = false;
  take(options, "reuse_unchanged", reuse);
  for (const auto& [name, instead] : kOfOneSave)
    if (options.contains(name))
      throw Error(Code::kInvalidArgument, std::string(name) + ": " + instead);
  const SaveChoices choices = save_options(options);
  target_file_bytes = choices.target_file_bytes;
  result.handler = handler_options(choices);
  result.handler.reuse = reuse ? Reuse::kUnchanged : Reuse::kNone;
  return result;
}

// Calls that wait give Python's lock back, because the thread of a save takes it: for best_fn, for
// a coordinator, and when it returns borrowed objects. So threads of Python may be in two calls at
// a time, and those that change the manager take turns.
class Manager {
 public:
  Manager(const PathText& directory, nb::dict given) {
    const nb::dict options = nb::steal<nb::dict>(PyDict_Copy(given.ptr()));
    job_ = Job::take(options);
    CheckpointManagerOptions chosen;
    const auto prepare = [&] {
      chosen = manager_options(options, target_file_bytes_);
      is_dcp_ = chosen.step_format != nullptr;
      if (job_) chosen.handler.multiprocessing_options = job_->options();
    };
    run_prepared(job_, prepare, [&](const CallControl&) {
      manager_.set(std::make_unique<CheckpointManager>(directory.place(), std::move(chosen)));
    });
  }
  Manager(const Manager&) = delete;
  Manager& operator=(const Manager&) = delete;
  ~Manager() {
    const WithoutGil unlocked;
    manager_.reset();
  }

  bool save(std::int64_t step, nb::handle tree, std::optional<Metrics> metrics, bool force,
            const std::string& custom_metadata, const std::string& item_metadata,
            nb::handle progress) {
    manager_.check_is_here("the manager");
    check_can_wait();
    PyTreeSaveArgs args;
    if (!is_dcp_) args.ocdbt_target_data_file_size = target_file_bytes_;
    args.custom_metadata = item_metadata;
    const ProgressFn called = background_progress(progress, this);
    bool saved = false;
    run_prepared(
        job_,
        [&] {
          args.item = tree_from(tree, &args.key_types);
          if (is_dcp_) warn_of_lost_keys("dcp", args.key_types);
        },
        [&](const CallControl&) {
          const Turn turn(*this);
          saved = manager_->save(step, args,
                                 {.metrics = std::move(metrics),
                                  .force = force,
                                  .custom_metadata = custom_metadata,
                                  .progress = called});
        });
    return saved;
  }
  void wait() {
    if (!manager_.is_here()) {  // restores wait, too, and a forked process may restore
      if (manager_->is_saving_in_progress()) manager_.check_is_here("the save");
      return;
    }
    wait_for([&] { manager_->wait_until_finished(); });
  }
  void close() {
    if (!manager_.is_here()) return;  // as at the end of a `with` block in a forked process
    wait_for([&] { manager_->close(); });
  }
  void remove(std::int64_t step) {
    wait_for([&] { manager_->remove(step); });
  }
  // Any thread may use it, for what CheckpointManager allows other threads.
  CheckpointManager& get() { return *manager_; }
  // Calls `f` with the manager. Call it without Python's lock.
  template <class F>
  auto in_turn(F f) {
    refuse_in_own_progress(this);
    const Turn turn(*this);
    return f(*manager_);
  }

 private:
  // Calls `f`, which waits for the manager.
  template <class F>
  void wait_for(F f) {
    check_can_wait();
    run_long(job_, [&](const CallControl&) {
      const Turn turn(*this);
      f();
    });
  }
  // Throws failed_precondition in a function that the manager calls: it would wait for itself.
  void check_can_wait() const {
    refuse_in_own_progress(this);
    if (turn_of == this)
      throw Error(
          Code::kFailedPrecondition,
          "a function that the manager calls makes the manager wait; do that after the call");
  }

  // While it lives, this thread uses the manager alone. A function of Python that the manager calls
  // meanwhile, in this thread, may use it, too. Make it without Python's lock.
  class Turn {
   public:
    explicit Turn(Manager& manager) : before_(std::exchange(turn_of, &manager)) {
      // In a forked process, the thread that has the turn may be missing.
      if (before_ != &manager && manager.manager_.is_here())
        lock_ = std::unique_lock(manager.mutex_);
    }
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;
    ~Turn() { turn_of = before_; }

   private:
    const Manager* before_;
    std::unique_lock<std::mutex> lock_;
  };
  static thread_local const Manager* turn_of;  // whose turn this thread has

  std::mutex mutex_;
  std::optional<Job> job_;
  std::int64_t target_file_bytes_ = 0;
  bool is_dcp_ = false;  // the steps are Distributed Checkpoints of PyTorch
  OwnedByProcess<CheckpointManager> manager_;
};

thread_local const Manager* Manager::turn_of = nullptr;

using Unlocked = nb::call_guard<WithoutGil>;

}  // namespace

void define_manager(nb::module_& module) {
  nb::class_<Manager>(module, "Manager", "Saves and removes the steps of a directory.")
      .def(nb::init<const PathText&, nb::dict>(), nb::arg("directory"), nb::arg("options"))
      .def("save", &Manager::save, nb::arg("step"), nb::arg("tree").none(),
           nb::arg("metrics").none(), nb::arg("force"), nb::arg("custom_metadata"),
           nb::arg("item_metadata"), nb::arg("progress").none() = nb::none())
      .def("wait", &Manager::wait)
      .def("close", &Manager::close)
      .def("directory", [](Manager& m) { return to_str(m.get().directory()); })
      .def(
          "all_steps", [](Manager& m) { return m.get().all_steps(); }, Unlocked())
      .def("incomplete_steps",
           [](Manager& m) {
             nb::list steps;
             for (const IncompleteStep& step : m.get().incomplete_steps())
               steps.append(nb::make_tuple(step.step, to_str(step.path), to_str(step.reason)));
             return steps;
           })
      .def(
          "latest_step", [](Manager& m) { return m.get().latest_step(); }, Unlocked())
      .def(
          "best_step",
          [](Manager& m) { return m.in_turn([](auto& manager) { return manager.best_step(); }); },
          Unlocked())
      .def(
          "metrics", [](Manager& m, std::int64_t step) { return m.get().metrics(step); },
          nb::arg("step"), Unlocked())
      .def(
          "root_metadata", [](Manager& m) { return m.get().root_metadata(); }, Unlocked())
      .def(
          "should_save",
          [](Manager& m, std::int64_t step) {
            return m.in_turn([&](auto& manager) { return manager.should_save(step); });
          },
          nb::arg("step"), Unlocked())
      .def(
          "reached_preemption", [](Manager& m) { return m.get().reached_preemption(); }, Unlocked())
      .def("remove", &Manager::remove, nb::arg("step"))
      .def(
          "reload", [](Manager& m) { m.in_turn([](auto& manager) { manager.reload(); }); },
          Unlocked())
      .def(
          "check_for_errors",
          [](Manager& m) { m.in_turn([](auto& manager) { manager.check_for_errors(); }); },
          Unlocked())
      .def(
          "is_saving", [](Manager& m) { return m.get().is_saving_in_progress(); }, Unlocked());
  module.def(
      "step_name",
      [](std::int64_t step, const std::string& prefix, std::size_t digits,
         const std::string& separator) {
        StepNameFormat format(prefix, digits);
        format.separator = separator;
        return step_name(step, format);
      },
      nb::arg("step"), nb::arg("prefix"), nb::arg("digits"), nb::arg("separator"));
}

}  // namespace cairn::python
