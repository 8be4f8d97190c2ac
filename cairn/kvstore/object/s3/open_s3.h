// open_s3.h -- opens s3://bucket/prefix.
#pragma once

#include <cairn/kvstore/object/credentials/credentials.h>
#include <cairn/storage/kvstore.h>
#include <cairn/storage/store_options.h>

#include <string>

namespace cairn::inline v0::object {

// What each request to a bucket says beyond StoreOptions.
struct S3RequestOptions {
  bool requester_pays = false;  // the account of the keys pays for requests and traffic
};

// Stores that are open at the same time, with equal options, share their connections, credentials
// and what they have learned about the endpoint. If `surroundings` has a transport, as in tests,
// the store uses it and shares nothing. Throws invalid_argument for an endpoint that is not a URL.
StorePtr open_s3_store(const std::string& bucket, const std::string& prefix,
                       const StoreOptions& options, const Surroundings& surroundings,
                       const S3RequestOptions& requests = {});

}  // namespace cairn::inline v0::object
