// curl_api.h -- the part of libcurl's interface that Cairn uses, declared here, because libcurl is
// loaded when it is first needed. The names and numbers are those of <curl/curl.h>; a test compares
// them.
#pragma once

#include <cairn/kvstore/object/transport/shared_library.h>

#include <cstdint>

namespace cairn::inline v0::object {

// Options of curl_easy_setopt, without the prefix CURLOPT_.
enum class CurlOption : int {
  kUseragent = 10018,
  kUrl = 10002,
  kCustomrequest = 10036,
  kHttpheader = 10023,
  kHttpget = 80,
  kNobody = 44,
  kUpload = 46,
  kInfilesizeLarge = 30115,
  kBuffersize = 98,
  kUploadBuffersize = 280,
  kReadfunction = 20012,
  kReaddata = 10009,
  kWritefunction = 20011,
  kWritedata = 10001,
  kHeaderfunction = 20079,
  kHeaderdata = 10029,
  kXferinfofunction = 20219,
  kXferinfodata = 10057,
  kNoprogress = 43,
  kErrorbuffer = 10010,
  kNosignal = 99,
  kPathAsIs = 234,
  kHttpVersion = 84,
  kFollowlocation = 52,
  kProtocols = 181,
  kTcpNodelay = 121,
  kConnecttimeoutMs = 156,
  kFreshConnect = 74,
  kSuppressConnectHeaders = 265,
  kNoproxy = 10177,
  kCainfo = 10065,
  kSslVerifypeer = 64,
  kSslVerifyhost = 81,
};

// CURLINFO_PRETRANSFER_TIME_T, CURL_HTTP_VERSION_1_1, CURLPROTO_HTTP and _HTTPS, the size of an
// error buffer, and CURL_GLOBAL_ALL.
inline constexpr int kCurlPretransferTime = 0x600000 + 53;
inline constexpr long kCurlHttp11 = 2;
inline constexpr long kCurlProtocols = 1 + 2;
inline constexpr std::size_t kCurlErrorSize = 256;
inline constexpr long kCurlGlobalAll = 3;

// Results of curl_easy_perform, without the prefix CURLE_.
enum class CurlCode : int {
  kOk = 0,
  kUnsupportedProtocol = 1,
  kUrlMalformat = 3,
  kOperationTimedout = 28,
  kSslCertproblem = 58,
  kSslCipher = 59,
  kPeerFailedVerification = 60,
  kSslCacertBadfile = 77,
  kSslIssuerError = 83,
};

struct CurlHandle;  // CURL
struct CurlList;    // struct curl_slist

struct CurlApi {
  // Throws unimplemented, with the name of the package, if the system has no libcurl.
  CurlApi();

  SharedLibrary library;
  const char* (*version)() = library.function("curl_version");
  int (*global_init)(long) = library.function("curl_global_init");
  CurlHandle* (*easy_init)() = library.function("curl_easy_init");
  void (*easy_cleanup)(CurlHandle*) = library.function("curl_easy_cleanup");
  void (*easy_reset)(CurlHandle*) = library.function("curl_easy_reset");
  int (*easy_setopt)(CurlHandle*, int, ...) = library.function("curl_easy_setopt");
  int (*easy_getinfo)(CurlHandle*, int, ...) = library.function("curl_easy_getinfo");
  int (*easy_perform)(CurlHandle*) = library.function("curl_easy_perform");
  const char* (*easy_strerror)(int) = library.function("curl_easy_strerror");
  CurlList* (*list_append)(CurlList*, const char*) = library.function("curl_slist_append");
  void (*list_free)(CurlList*) = library.function("curl_slist_free_all");
};

// Loads libcurl on the first call, for the rest of the process.
const CurlApi& curl_api();

}  // namespace cairn::inline v0::object
