// open_s3.h -- opens s3://bucket/prefix.
#pragma once

#include <cairn/kvstore/object/credentials/credentials.h>
#include <cairn/storage/kvstore.h>
#include <cairn/storage/store_options.h>

#include <string>

namespace cairn::inline v0::object {

// Stores that are open at the same time, with equal options, share their connections, credentials
// and what they have learned about the endpoint. If `surroundings` has a transport, as in tests,
// the store uses it and shares nothing. Throws invalid_argument for an endpoint that is not a URL.
StorePtr open_s3_store(const std::string& bucket, const std::string& prefix,
                       const StoreOptions& options, const Surroundings& surroundings);

}  // namespace cairn::inline v0::object
