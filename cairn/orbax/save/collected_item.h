// collected_item.h -- collects the arrays and strings that the type handlers of one save add, so
// that the item is written in one pass.
#pragma once

#include <cairn/array/staging.h>
#include <cairn/base/executor.h>
#include <cairn/base/memory/raw_bytes.h>
#include <cairn/orbax/handlers.h>
#include <cairn/orbax/save/item_writer.h>

#include <exception>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace cairn::inline v0::orbax {

// The ItemWriter that type handlers write to. The functions that add may be called from
// several threads.
class CollectedItem : public ItemWriter, public StagingOwner {
 public:
  // `staging` is for the copies of a background save; null: each copy takes new memory.
  CollectedItem(bool background, SavingProcess process, Executor& executor,
                std::shared_ptr<StagingPool> staging)
      : background_(background),
        process_(process),
        executor_(executor),
        staging_(std::move(staging)),
        written_(promise_.get_future().share()) {}

  // Prepares for this many arrays.
  void reserve(std::size_t arrays);
  void add_array(StoreArray array) override;
  void add_string_in(std::string file, std::string name, std::string text) override;
  [[nodiscard]] bool is_background() const override { return background_; }
  void run_tasks(std::size_t n, const std::function<void(std::size_t)>& task) const override {
    executor_.for_each(n, task);
  }
  [[nodiscard]] std::shared_future<void> written() const override { return written_; }
  [[nodiscard]] SavingProcess process() const override { return process_; }
  [[nodiscard]] const std::shared_ptr<StagingPool>& staging() const override { return staging_; }

  // Moves everything that handlers have added to the item, whose tree has its leaves: in the order
  // of the tree, then what belongs to no leaf. A value belongs to the leaf of its name if that is
  // an array, scalar or string, as the value is. Throws invalid_argument for a leaf of one of those
  // kinds without a value.
  void move_to(SaveItem& item);
  // Makes the future `written` ready.
  void set_written();
  // Makes the future `written` fail unless it is already ready. Code that waits for the future
  // receives the error.
  void fail(std::exception_ptr error);

 private:
  bool background_;
  SavingProcess process_;
  Executor& executor_;
  std::shared_ptr<StagingPool> staging_;
  bool done_ = false;
  std::mutex mutex_;
  LargeVector<StoreArray> arrays_;
  std::vector<SaveString> strings_;
  std::promise<void> promise_;
  std::shared_future<void> written_;
};

}  // namespace cairn::inline v0::orbax
