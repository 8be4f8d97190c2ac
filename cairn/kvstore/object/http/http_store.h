// http_store.h -- the files below a URL of a web server as a read-only KvStore.
#pragma once

#include <cairn/kvstore/object/http/http_client.h>
#include <cairn/storage/kvstore.h>

#include <memory>
#include <string>

namespace cairn::inline v0::object {

// `root` is "https://host/path", percent-encoded and without a final '/'. Keys are names below it,
// without percent-encoding; names that a folder could not hold are refused (flaw_of_object_key).
// Values are read in one version (http_version.h). A web server has no listings, so those throw
// unimplemented.
StorePtr make_http_store(std::string root, std::shared_ptr<HttpClient> client);

}  // namespace cairn::inline v0::object
