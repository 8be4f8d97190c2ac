// snapshot.h -- Snapshot, the names, sizes and versions of a store's values as they were when they
// were first listed.
#pragma once

#include <cairn/storage/kvstore.h>

#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace cairn::inline v0 {

// What a reader of a store goes by: each name is listed once, and later answers are the same. '/'
// separates folders; a folder exists while a key lies in it. Safe to use from many threads.
class Snapshot {
 public:
  explicit Snapshot(StorePtr store) : store_(std::move(store)) {}

  [[nodiscard]] const StorePtr& store() const { return store_; }
  // The value of a key; nullopt if there is none.
  [[nodiscard]] std::optional<StoredValue> find(const std::string& key) const;
  // True if keys begin with `folder`, which is "" or ends in '/'.
  [[nodiscard]] bool has_folder(const std::string& folder) const;
  // The values directly in `folder`, and the folders directly in it.
  [[nodiscard]] StoreListing level(const std::string& folder) const;
  // All values below `folder`, sorted bytewise.
  [[nodiscard]] std::vector<StoredValue> below(const std::string& folder) const;
  // Lists what is below `folder` with one request, if one suffices. Call it before the folder is
  // read.
  void prepare(const std::string& folder) const;
  // True if prepare() has found all values below `folder`: no answer about them needs a request.
  [[nodiscard]] bool knows_all_below(const std::string& folder) const;
  // True if the answers about `folder` may be of several moments: they needed more than one page of
  // a listing, and the store no longer has what was listed. Asks the store.
  [[nodiscard]] bool is_outdated(const std::string& folder) const;

 private:
  // All values below a folder. Null: not known.
  const std::vector<StoredValue>* known_below(const std::string& folder) const;
  // Lists below `folder` unless it is known or has more than `most` values.
  void list_below(const std::string& folder, std::size_t most) const;
  const StoreListing& listed_level(const std::string& folder) const;

  StorePtr store_;
  mutable std::mutex mutex_;  // guards the members below; also held while the store is asked
  mutable std::map<std::string, std::vector<StoredValue>> below_;  // by folder; all that is below
  mutable std::map<std::string, std::size_t> larger_;  // folder -> it has more values than this
  mutable std::map<std::string, StoreListing> levels_;
};

}  // namespace cairn::inline v0
