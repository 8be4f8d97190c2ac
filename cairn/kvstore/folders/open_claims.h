// open_claims.h -- the places in stores that saves of this process have claimed. A handler that
// writes a part of such a checkpoint knows only its URL: it finds the claim here.
#pragma once

#include <cairn/storage/kvstore.h>

#include <string>
#include <string_view>

namespace cairn::inline v0 {

// Makes a claim known while the object lives.
class OpenClaim {
 public:
  // `url` has no final '/'. `store` has its values.
  OpenClaim(std::string url, StorePtr store);
  ~OpenClaim();
  OpenClaim(const OpenClaim&) = delete;
  OpenClaim& operator=(const OpenClaim&) = delete;

 private:
  std::string url_;
};

// The values below a URL without a final '/', if a claim of this process has it or a folder above
// it. Else null.
StorePtr find_claimed(std::string_view url);

}  // namespace cairn::inline v0
