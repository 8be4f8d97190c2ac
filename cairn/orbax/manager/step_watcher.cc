// step_watcher.cc -- looks again and again for new steps.
#include <cairn/checkpoint_manager.h>

#include <cairn/base/errors.h>
#include <cairn/kvstore/folders/resolve.h>
#include <cairn/orbax/manager/run_root.h>
#include <cairn/orbax/manager/step_directory.h>

#include <thread>
#include <utility>

namespace cairn::inline v0 {
namespace {

using Clock = std::chrono::steady_clock;

// The latest step, if it is one that is waited for.
std::optional<std::int64_t> latest_in(const std::string& directory, const StorePtr& store,
                                      const StepWatcherOptions& options,
                                      std::optional<std::int64_t> wanted) {
  const auto root = orbax::look_at_run(directory, store);
  if (root == nullptr) return std::nullopt;
  return orbax::find_latest_step(*root,
                                 {options.step_name_format,
                                  {options.commit_protocol, options.allow_legacy_atomic_rename},
                                  options.step_format},
                                 wanted);
}

}  // namespace

StepWatcher::StepWatcher(std::string directory, StepWatcherOptions options)
    : directory_(std::move(directory)), options_(std::move(options)), wanted_(options_.first_step) {
  store_ = orbax::open_run_store(directory_, options_.store);
  if (store_ != nullptr) directory_ = normal_path(directory_);
  if (options_.poll_interval.count() <= 0) invalid_argument("poll_interval must be positive");
  if (options_.min_interval.count() < 0) invalid_argument("min_interval must not be negative");
  if (options_.timeout && options_.timeout->count() < 0)
    invalid_argument("timeout must not be negative");
  (void)step_name(0, options_.step_name_format);
}

std::optional<std::int64_t> StepWatcher::next() {
  if (last_time_) std::this_thread::sleep_for(options_.min_interval - (Clock::now() - *last_time_));
  const Clock::time_point start = Clock::now();
  while (true) {
    const auto latest = latest_in(directory_, store_, options_, wanted_);
    if (latest) {
      wanted_ = *latest + 1;
      last_time_ = Clock::now();
      return latest;
    }
    // It gives up rather than wait longer than it was told. A difference, because a sum could
    // exceed what the clock holds.
    const bool is_late =
        options_.timeout && *options_.timeout - (Clock::now() - start) < options_.poll_interval;
    if (is_late && (!options_.gives_up || options_.gives_up())) return std::nullopt;
    std::this_thread::sleep_for(options_.poll_interval);
  }
}

}  // namespace cairn::inline v0
