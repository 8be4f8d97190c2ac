// open_http.h -- opens http://host/path and https://host/path.
#pragma once

#include <cairn/kvstore/object/credentials/credentials.h>
#include <cairn/kvstore/object/request/url.h>
#include <cairn/storage/kvstore.h>
#include <cairn/storage/store_options.h>

namespace cairn::inline v0::object {

// The files below the URL, for reading. No request is sent. `headers` are added to each request to
// the URL's host. Stores that are open at the same time with equal options share their connections.
// If `surroundings` has a transport, as in tests, the store uses it and shares nothing. Throws
// unimplemented if the system has no libcurl.
StorePtr open_http_store(const StoreUrl& url, const StoreOptions& options,
                         const Surroundings& surroundings, const HttpHeaders& headers = {});

}  // namespace cairn::inline v0::object
