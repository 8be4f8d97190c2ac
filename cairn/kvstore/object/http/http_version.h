// http_version.h -- which version of a file an answer of a web server holds.
#pragma once

#include <cairn/kvstore/object/transport/http.h>

#include <string>
#include <string_view>

namespace cairn::inline v0::object {

// What tells one version of a file from another: a strong ETag ("\"abc\""), else the time of its
// last change as the server writes it, which says nothing about changes within one second; "" if
// the server sends neither.
std::string http_version_of(const HttpHeaders& headers);

// Makes a request fail (412) unless that version is stored: If-Match or If-Unmodified-Since.
void add_version_condition(HttpHeaders& headers, const std::string& version);

// Returns true if the answer holds another version. Servers may ignore conditions.
bool is_other_version(const HttpHeaders& headers, std::string_view version);

}  // namespace cairn::inline v0::object
