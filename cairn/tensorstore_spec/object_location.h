// object_location.h -- the drivers gcs, s3 and http, and the URLs gs://, s3:// and http(s)://.
#pragma once

#include <cairn/tensorstore_spec/scope.h>
#include <cairn/tensorstore_spec/store_location.h>

#include <string>
#include <string_view>

namespace cairn::inline v0::tensorstore_spec {

// Parse the members of the driver that the object names. No request is sent. The endpoint, the
// region, the credentials and the limits that the spec leaves out are those of
// SpecContext::store_options() and of the environment.
StoreLocation parse_gcs(Members& members, const Scope& scope);
StoreLocation parse_s3(Members& members, const Scope& scope);
StoreLocation parse_http(Members& members, const Scope& scope);

// Whether the URL names a store of these drivers.
bool is_object_url(std::string_view url);
// Parses such a URL. As TensorStore does, it decodes percent escapes in all of them: elsewhere
// Cairn takes keys of gs:// and s3:// literally. No message holds a query, a user or a password.
StoreLocation parse_object_url(std::string_view url, const std::string& pointer,
                               const Scope& scope);

}  // namespace cairn::inline v0::tensorstore_spec
