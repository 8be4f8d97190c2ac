// output_place.h -- OutputPlace, where a writer puts its files: beside a path of this machine, or
// in a folder of a store.
#pragma once

#include <cairn/formats/output/store_claim.h>
#include <cairn/storage/kvstore.h>
#include <cairn/storage/store_options.h>

#include <chrono>
#include <string>

namespace cairn::inline v0 {

// A path or URL that is to be written, and the store that it lies in.
class OutputPlace {
 public:
  // Sends no request. Throws unimplemented for URLs that are read-only (http, https, hf), and
  // invalid_argument for one without a name behind the bucket.
  OutputPlace(const std::string& where, const StoreOptions& options);
  // The file `name` of the folder that is called `url` and holds the keys of `store`.
  // `lease` as in ClaimedKey.
  OutputPlace(StorePtr store, const std::string& url, const std::string& name,
              std::chrono::milliseconds lease);

  [[nodiscard]] bool is_local() const { return store_ == nullptr; }
  // The path or URL.
  [[nodiscard]] const std::string& path() const { return path_; }
  // Of the folder. Null: this machine.
  [[nodiscard]] const StorePtr& store() const { return store_; }
  // The key of a path or URL that lies beside path().
  [[nodiscard]] std::string key_of(const std::string& path) const;
  // What a StoreClaim of this path or URL takes.
  [[nodiscard]] ClaimedKey claim_of(const std::string& path) const;

 private:
  std::string path_;
  StorePtr store_;
  std::string folder_;  // with a final '/'
  std::chrono::milliseconds lease_ = ClaimedKey().lease;
};

}  // namespace cairn::inline v0
