// endpoint.h -- the address of a service, as users give it.
#pragma once

#include <string>
#include <string_view>

namespace cairn::inline v0::object {

// The address without a slash at its end. Throws invalid_argument unless it is http://host or
// https://host, with a port and a path if need be, and without a user, a query or a fragment.
// `source` names what has it: "the option endpoint".
std::string checked_endpoint(std::string endpoint, std::string_view source);

}  // namespace cairn::inline v0::object
