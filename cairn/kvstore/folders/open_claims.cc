// open_claims.cc -- keeps the claims of this process by their URL.
#include <cairn/kvstore/folders/open_claims.h>

#include <map>
#include <mutex>
#include <utility>

namespace cairn::inline v0 {
namespace {

struct Claims {
  std::mutex mutex;
  std::map<std::string, StorePtr, std::less<>> stores;
};
Claims& claims() {
  static auto* const all = new Claims;  // threads may outlive static objects
  return *all;
}

}  // namespace

OpenClaim::OpenClaim(std::string url, StorePtr store) : url_(std::move(url)) {
  const std::scoped_lock lock(claims().mutex);
  claims().stores.insert_or_assign(url_, std::move(store));
}

OpenClaim::~OpenClaim() {
  const std::scoped_lock lock(claims().mutex);
  claims().stores.erase(url_);
}

StorePtr find_claimed(std::string_view url) {
  const std::scoped_lock lock(claims().mutex);
  for (const auto& [claimed, store] : claims().stores) {
    if (url == claimed) return store;
    if (url.starts_with(claimed) && url.substr(claimed.size()).starts_with('/'))
      return prefix_store(store, std::string(url.substr(claimed.size() + 1)) + "/");
  }
  return nullptr;
}

}  // namespace cairn::inline v0
