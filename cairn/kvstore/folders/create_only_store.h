// create_only_store.h -- CreateOnlyStore, a store in which one save creates values and replaces
// none but its own, so that two saves to one place cannot mix.
#pragma once

#include <cairn/kvstore/routing_store.h>

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cairn::inline v0 {

// What write() stores must not be there yet: throws unavailable if it is, because another save has
// stored it. No store has this condition for large values: their keys are looked up just before.
// Safe to use from many threads.
class CreateOnlyStore final : public RoutingStore {
 public:
  explicit CreateOnlyStore(StorePtr base) : base_(std::move(base)) {}

  // From now on, values of other processes of this save may be read.
  void share() { is_shared_ = true; }
  // Replaces a value that was written here with `before`. Throws unavailable if it is no longer
  // that value.
  void rewrite(std::string_view key, ByteView before, ByteView value);
  // Lists the store. Throws unavailable if a value that was written here is missing or has another
  // size; if it is not shared, also if there are others.
  void check_stored() const;
  // Removes the values that were written here, all but one.
  void remove_written(std::string_view but);
  // Throws unavailable if the value is there.
  void check_absent(std::string_view key) const;
  // Notes a value that was written here.
  void note(std::string_view key, std::uint64_t size);

  std::vector<ListEntry> list(std::string_view prefix) const override {
    return base_->list(prefix);
  }
  StoreListing list_level(std::string_view prefix) const override {
    return base_->list_level(prefix);
  }
  StoreListing list_values(std::string_view prefix, std::size_t most) const override {
    return base_->list_values(prefix, most);
  }
  // Unless the store is shared, what was not written here is not there: the save has claimed the
  // place. No request is needed to know, and a value of another save is found when it is written.
  std::optional<Bytes> read(std::string_view key, ByteRange range) const override;
  std::optional<Bytes> read_at_most(std::string_view key, std::uint64_t most) const override;
  void write(std::string_view key, ByteView value) override;
  void remove(std::string_view key) override;
  void remove_all(const std::vector<std::string>& keys) override;
  // Throws unavailable if there is a value under `to`, which is looked up just before.
  bool copy(std::string_view from, std::string_view to) override;
  // Throws unavailable for a value that another save has stored.
  bool replace_if(std::string_view key, std::optional<ByteView> expected, ByteView value) override;
  std::unique_ptr<Appender> append(std::string_view key) override;

 private:
  [[nodiscard]] Target find(std::string_view key) const override {
    return {base_.get(), std::string(key)};
  }
  [[nodiscard]] bool is_own(std::string_view key) const;
  [[noreturn]] void refuse(std::string_view key, std::string_view why) const;

  StorePtr base_;
  std::atomic<bool> is_shared_{false};
  mutable std::mutex mutex_;
  std::map<std::string, std::uint64_t, std::less<>> written_;  // key -> size in bytes
};

}  // namespace cairn::inline v0
