// collected_item.h -- what the type handlers of one save want stored, put together to an item that
// is written in one go.
#pragma once

#include <cairn/handlers.h>
#include <cairn/orbax/save/item_writer.h>

#include <exception>
#include <future>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace cairn::orbax {

class CollectedItem : public ItemWriter {
 public:
  CollectedItem(bool background, SavingProcess process)
      : background_(background), process_(process), written_(promise_.get_future().share()) {}

  void add_array(StoreArray array) override;
  void add_string(std::string name, std::string text) override;
  [[nodiscard]] bool is_background() const override { return background_; }
  [[nodiscard]] std::shared_future<void> written() const override { return written_; }
  [[nodiscard]] SavingProcess process() const override { return process_; }

  // The leaves of the tree, with `path` and `kind` set, and what has been added: to the leaf that
  // has its name if that is an array, scalar or string, else beside the leaves. Throws
  // invalid_argument for a leaf of those kinds that nothing was added for.
  std::vector<SaveLeaf> merge_into(std::vector<SaveLeaf> leaves);
  // Makes `written` ready.
  void set_written();
  // Makes it fail, unless it is ready already: whoever waits for it learns why nothing will be
  // written.
  void fail(std::exception_ptr error);

 private:
  bool background_;
  SavingProcess process_;
  bool done_ = false;
  std::mutex mutex_;
  std::vector<StoreArray> arrays_;
  std::vector<std::pair<std::string, std::string>> strings_;
  std::promise<void> promise_;
  std::shared_future<void> written_;
};

}  // namespace cairn::orbax
