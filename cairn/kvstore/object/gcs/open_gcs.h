// open_gcs.h -- opens gs://bucket/prefix.
#pragma once

#include <cairn/kvstore/object/credentials/credentials.h>
#include <cairn/storage/kvstore.h>
#include <cairn/storage/store_options.h>

#include <string>

namespace cairn::inline v0::object {

// The objects of a bucket below `prefix` ("": all; else a key, without a '/' at its end). No
// request is sent. The endpoint is that of the options, else STORAGE_EMULATOR_HOST
// ("localhost:4443", or with http:// before it), else Google's. Stores of one bucket that are open
// at the same time, with equal options, share their connections and their token. If `surroundings`
// has a transport, as in tests, the store uses it and shares nothing. Throws invalid_argument for
// an endpoint that is not a URL.
StorePtr open_gcs_store(const std::string& bucket, const std::string& prefix,
                        const StoreOptions& options, const Surroundings& surroundings);

// Where the token of its requests comes from, as gcs_token_source(). Sends no request.
std::string gcs_token_source(const StoreOptions& options, const Surroundings& surroundings);

}  // namespace cairn::inline v0::object
