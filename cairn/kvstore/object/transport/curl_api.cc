// curl_api.cc -- loads libcurl. Both libraries have the same functions; they differ in what they
// use for TLS.
#include <cairn/kvstore/object/transport/curl_api.h>

#include <cairn/error.h>

#include <array>

namespace cairn::inline v0::object {
namespace {

constexpr std::array<const char*, 2> kCurlNames = {"libcurl.so.4", "libcurl-gnutls.so.4"};

}  // namespace

CurlApi::CurlApi() : library(kCurlNames, "libcurl (Debian package libcurl4)") {
  const int code = global_init(kCurlGlobalAll);
  if (code != 0)
    throw Error(Code::kUnimplemented,
                std::string("libcurl cannot be initialised: ") + easy_strerror(code));
}

const CurlApi& curl_api() {
  static const CurlApi api;
  return api;
}

}  // namespace cairn::inline v0::object
