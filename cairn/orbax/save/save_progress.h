// save_progress.h -- the progress of one save: the bytes of all of its trees as one number.
#pragma once

#include <cairn/base/executor.h>
#include <cairn/checkpoint.h>

#include <functional>
#include <utility>

namespace cairn::inline v0::orbax {

struct SaveItem;

// Trees are written one after another, and each is planned only then. So that the total does not
// grow with each tree, expect() adds the bytes of all of them before the first is written.
class SaveProgress {
 public:
  explicit SaveProgress(ProgressFn call) : call_(std::move(call)) {}
  SaveProgress(const SaveProgress&) = delete;
  SaveProgress& operator=(const SaveProgress&) = delete;

  // Adds the bytes that the item seems to store, and has its writer count what it stores.
  void expect(SaveItem& item);
  // Calls `write`, as with_progress().
  void run(const std::function<void()>& write) const;

 private:
  ProgressFn call_;  // null: nothing is counted
  Progress counter_;
};

}  // namespace cairn::inline v0::orbax
