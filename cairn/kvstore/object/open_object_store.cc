// open_object_store.cc -- chooses the client for a URL.
#include <cairn/kvstore/object/open_object_store.h>

#include <cairn/error.h>
#include <cairn/kvstore/object/credentials/credentials.h>
#include <cairn/kvstore/object/gcs/open_gcs.h>
#include <cairn/kvstore/object/http/hub_store.h>
#include <cairn/kvstore/object/http/open_http.h>
#include <cairn/kvstore/object/request/url.h>
#include <cairn/kvstore/object/s3/open_s3.h>

#include <string>

namespace cairn::inline v0::object {

StorePtr open_object_store(std::string_view url, const StoreOptions& options) {
  const Surroundings surroundings = process_surroundings(nullptr);
  if (url.starts_with("hf://")) return open_hub_store(url, options, surroundings);
  const StoreUrl at = parse_store_url(url);
  switch (at.scheme) {
    case StoreScheme::kS3:
      return open_s3_store(at.bucket, at.prefix, options, surroundings);
    case StoreScheme::kGcs:
      return open_gcs_store(at.bucket, at.prefix, options, surroundings);
    case StoreScheme::kHttp:
      return open_http_store(at, options, surroundings);
  }
  throw Error(Code::kUnimplemented, std::string(url) + ": Cairn has no client for this store");
}

}  // namespace cairn::inline v0::object
