// step_listing.h -- the steps of a manager, for threads that only ask which there are.
#pragma once

#include <cairn/orbax/manager/step_directory.h>

#include <memory>
#include <mutex>
#include <utility>

namespace cairn::inline v0::orbax {

// One thread sets the list as a whole. Any thread gets the list of that moment, which never
// changes.
class StepListing {
 public:
  void set(FoundSteps steps) {
    auto made = std::make_shared<const FoundSteps>(std::move(steps));
    const std::lock_guard lock(mutex_);
    steps_.swap(made);  // the list before is freed without the lock
  }
  [[nodiscard]] std::shared_ptr<const FoundSteps> get() const {
    const std::lock_guard lock(mutex_);
    return steps_;
  }

 private:
  mutable std::mutex mutex_;
  std::shared_ptr<const FoundSteps> steps_ = std::make_shared<const FoundSteps>();
};

}  // namespace cairn::inline v0::orbax
