// pinned_store.h -- PinnedStore, the values of a store as a snapshot lists them.
#pragma once

#include <cairn/io/tree/range_source.h>
#include <cairn/kvstore/folders/snapshot.h>

#include <atomic>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>

namespace cairn::inline v0 {

// Opens the values of a snapshot, and keeps the most recently used ones open. Safe to use from many
// threads.
class PinnedValues {
 public:
  explicit PinnedValues(StorePtr store) : snapshot_(std::move(store)) {}

  [[nodiscard]] const Snapshot& snapshot() const { return snapshot_; }
  // The value in the version that the snapshot lists; null if it lists none. Throws unavailable if
  // the store has removed it since.
  [[nodiscard]] std::shared_ptr<const RangeSource> open(const std::string& key) const;
  // True after the store was found to have other versions than the snapshot.
  [[nodiscard]] bool is_replaced() const { return is_replaced_.load(std::memory_order_relaxed); }

 private:
  using Opened = std::list<std::pair<std::string, std::shared_ptr<const RangeSource>>>;
  static constexpr std::size_t kMostOpen = 64;

  [[nodiscard]] std::shared_ptr<const RangeSource> find_open(const std::string& key) const;
  void keep_open(const std::string& key, std::shared_ptr<const RangeSource> source) const;

  Snapshot snapshot_;
  mutable std::atomic<bool> is_replaced_ = false;
  mutable std::mutex mutex_;  // guards the members below
  mutable Opened opened_;     // most recently used first
  mutable std::unordered_map<std::string, Opened::iterator> index_;
};

using PinnedValuesPtr = std::shared_ptr<const PinnedValues>;

// The values below `folder` ("" or with a final '/') as a store for reading. Keys lose the prefix.
// Its locations are those of `handle`, which is the folder's.
StorePtr make_pinned_store(PinnedValuesPtr values, std::string folder,
                           std::shared_ptr<const FolderHandle> handle);

}  // namespace cairn::inline v0
