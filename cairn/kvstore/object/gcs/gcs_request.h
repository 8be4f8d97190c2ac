// gcs_request.h -- what the calls of the JSON API have in common: URLs with parameters, and
// requests without a body.
#pragma once

#include <cairn/kvstore/object/gcs/gcs_reply.h>
#include <cairn/kvstore/object/request/percent.h>
#include <cairn/kvstore/object/transport/http.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace cairn::inline v0::object {

// The members of an object's metadata that the store asks for.
inline constexpr std::string_view kGcsObjectFields =
    "name,size,generation,timeCreated,crc32c,metadata";

using MakeRequest = std::function<HttpRequest()>;

inline bool is_success(const HttpResponse& response) {
  return response.status >= 200 && response.status < 300;
}

// A URL to which parameters are added.
class UrlQuery {
 public:
  explicit UrlQuery(std::string url) : url_(std::move(url)) {}
  UrlQuery& add(std::string_view name, std::string_view value) {
    url_ += url_.find('?') == std::string::npos ? '?' : '&';
    url_ += name;
    url_ += '=';
    url_ += percent_encoded(value, Slash::kEncoded);
    return *this;
  }
  // Adds nothing without a value.
  UrlQuery& add_number(std::string_view name, std::optional<std::uint64_t> value) {
    return value ? add(name, std::to_string(*value)) : *this;
  }
  [[nodiscard]] const std::string& url() const { return url_; }

 private:
  std::string url_;
};

// Makes a request without a body. `most`: the most bytes of its answer.
inline MakeRequest without_body(std::string method, std::string url,
                                std::uint64_t most = kMostGcsObjectReply) {
  return [method = std::move(method), url = std::move(url), most] {
    return HttpRequest{.method = method, .url = url, .most_body = most};
  };
}

}  // namespace cairn::inline v0::object
