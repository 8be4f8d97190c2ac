// http_headers.h -- the header fields that a spec of the driver http adds to each request.
#pragma once

#include <cairn/kvstore/object/transport/http.h>
#include <cairn/tensorstore_spec/members.h>

namespace cairn::inline v0::tensorstore_spec {

// Parses the member "headers": ["Name: value", ...]. Throws invalid_argument for fields that HTTP
// does not have, and unimplemented for those that Cairn sets itself. No message holds a value,
// which may be a secret.
object::HttpHeaders parse_http_headers(Members& members);

}  // namespace cairn::inline v0::tensorstore_spec
