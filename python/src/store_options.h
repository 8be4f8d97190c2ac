// store_options.h -- how to reach an object store, as Python passes it: a dict whose unknown keys
// are errors.
#pragma once

#include <cairn/storage/store_options.h>

#include <nanobind/nanobind.h>

namespace cairn::python {

// None, or a dict with these keys: endpoint, region, profile, ca_file (str), access_key,
// secret_key, session_token, bearer_token (str, the members of StoreCredentials), anonymous,
// path_style, verify_tls (bool), max_connections (int), connect_timeout, stall_timeout, retry_time
// (seconds). None stands for the default. Throws invalid_argument; no message has a value that is a
// key or a token.
StoreOptions store_options(nanobind::handle given);

}  // namespace cairn::python
