// bearer.h -- requests that a bearer token authorises (RFC 6750).
#pragma once

#include <cairn/base/errors.h>
#include <cairn/kvstore/object/request/sender.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

namespace cairn::inline v0::object {

// Whether a header can hold the token: visible ASCII characters.
inline bool is_bearer_token(std::string_view text) {
  constexpr std::size_t kMostToken = std::size_t{16} << 10U;
  return !text.empty() && text.size() <= kMostToken &&
         std::all_of(text.begin(), text.end(), [](char c) { return c > ' ' && c <= '~'; });
}

inline void add_bearer_token(HttpRequest& request, const std::string& token) {
  request.headers.add("Authorization", "Bearer " + token);
}

// Adds the same token to each request.
class FixedToken : public Signer {
 public:
  // `source` names the token in messages. Throws invalid_argument if no header can hold it.
  FixedToken(std::string token, std::string_view source) : token_(std::move(token)) {
    if (!is_bearer_token(token_))
      invalid_argument(std::string(source) + " has characters that no token has");
  }
  void sign(HttpRequest& request) override { add_bearer_token(request, token_); }
  bool refresh() override { return false; }

 private:
  std::string token_;
};

}  // namespace cairn::inline v0::object
