// open_claims.h -- the places in stores that saves of this process have claimed. A handler that
// writes a part of such a checkpoint knows only its URL: it finds the claim here.
#pragma once

#include <cairn/storage/kvstore.h>

#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

namespace cairn::inline v0 {

// The values of claimed places, by URLs without a final '/'. Safe to use from many threads.
class OpenClaims {
 public:
  static OpenClaims& of_process() {
    static auto* const all = new OpenClaims;  // threads may outlive static objects
    return *all;
  }

  void add(const std::string& url, StorePtr values) {
    const std::scoped_lock lock(mutex_);
    claims_.insert_or_assign(url, std::move(values));
  }
  void remove(const std::string& url) {
    const std::scoped_lock lock(mutex_);
    claims_.erase(url);
  }
  // The values below a URL without a final '/', if it or a folder above it is claimed. Else null.
  [[nodiscard]] StorePtr find(std::string_view url) {
    const std::scoped_lock lock(mutex_);
    for (const auto& [claimed, values] : claims_) {
      if (url == claimed) return values;
      if (url.starts_with(claimed) && url.substr(claimed.size()).starts_with('/'))
        return prefix_store(values, std::string(url.substr(claimed.size() + 1)) + "/");
    }
    return nullptr;
  }

 private:
  std::mutex mutex_;
  std::map<std::string, StorePtr, std::less<>> claims_;
};

// Makes a claim known while the object lives.
class OpenClaim {
 public:
  OpenClaim(std::string url, StorePtr values) : url_(std::move(url)) {
    OpenClaims::of_process().add(url_, std::move(values));
  }
  ~OpenClaim() { OpenClaims::of_process().remove(url_); }
  OpenClaim(const OpenClaim&) = delete;
  OpenClaim& operator=(const OpenClaim&) = delete;

 private:
  std::string url_;
};

}  // namespace cairn::inline v0
