// Compares the numbers that Cairn declares with those of libcurl.
#include <cairn/kvstore/object/transport/curl_api.h>
#include <curl/curl.h>
#include <gtest/gtest.h>

#include <string>

namespace cairn::object {
namespace {

static_assert(static_cast<int>(CurlOption::kUseragent) == CURLOPT_USERAGENT);
static_assert(static_cast<int>(CurlOption::kUrl) == CURLOPT_URL);
static_assert(static_cast<int>(CurlOption::kCustomrequest) == CURLOPT_CUSTOMREQUEST);
static_assert(static_cast<int>(CurlOption::kHttpheader) == CURLOPT_HTTPHEADER);
static_assert(static_cast<int>(CurlOption::kHttpget) == CURLOPT_HTTPGET);
static_assert(static_cast<int>(CurlOption::kNobody) == CURLOPT_NOBODY);
static_assert(static_cast<int>(CurlOption::kUpload) == CURLOPT_UPLOAD);
static_assert(static_cast<int>(CurlOption::kInfilesizeLarge) == CURLOPT_INFILESIZE_LARGE);
static_assert(static_cast<int>(CurlOption::kBuffersize) == CURLOPT_BUFFERSIZE);
static_assert(static_cast<int>(CurlOption::kUploadBuffersize) == CURLOPT_UPLOAD_BUFFERSIZE);
static_assert(static_cast<int>(CurlOption::kReadfunction) == CURLOPT_READFUNCTION);
static_assert(static_cast<int>(CurlOption::kReaddata) == CURLOPT_READDATA);
static_assert(static_cast<int>(CurlOption::kWritefunction) == CURLOPT_WRITEFUNCTION);
static_assert(static_cast<int>(CurlOption::kWritedata) == CURLOPT_WRITEDATA);
static_assert(static_cast<int>(CurlOption::kHeaderfunction) == CURLOPT_HEADERFUNCTION);
static_assert(static_cast<int>(CurlOption::kHeaderdata) == CURLOPT_HEADERDATA);
static_assert(static_cast<int>(CurlOption::kXferinfofunction) == CURLOPT_XFERINFOFUNCTION);
static_assert(static_cast<int>(CurlOption::kXferinfodata) == CURLOPT_XFERINFODATA);
static_assert(static_cast<int>(CurlOption::kNoprogress) == CURLOPT_NOPROGRESS);
static_assert(static_cast<int>(CurlOption::kErrorbuffer) == CURLOPT_ERRORBUFFER);
static_assert(static_cast<int>(CurlOption::kNosignal) == CURLOPT_NOSIGNAL);
static_assert(static_cast<int>(CurlOption::kPathAsIs) == CURLOPT_PATH_AS_IS);
static_assert(static_cast<int>(CurlOption::kHttpVersion) == CURLOPT_HTTP_VERSION);
static_assert(static_cast<int>(CurlOption::kFollowlocation) == CURLOPT_FOLLOWLOCATION);
static_assert(static_cast<int>(CurlOption::kTcpNodelay) == CURLOPT_TCP_NODELAY);
static_assert(static_cast<int>(CurlOption::kConnecttimeoutMs) == CURLOPT_CONNECTTIMEOUT_MS);
static_assert(static_cast<int>(CurlOption::kFreshConnect) == CURLOPT_FRESH_CONNECT);
static_assert(static_cast<int>(CurlOption::kSuppressConnectHeaders) ==
              CURLOPT_SUPPRESS_CONNECT_HEADERS);
static_assert(static_cast<int>(CurlOption::kNoproxy) == CURLOPT_NOPROXY);
static_assert(static_cast<int>(CurlOption::kCainfo) == CURLOPT_CAINFO);
static_assert(static_cast<int>(CurlOption::kSslVerifypeer) == CURLOPT_SSL_VERIFYPEER);
static_assert(static_cast<int>(CurlOption::kSslVerifyhost) == CURLOPT_SSL_VERIFYHOST);
static_assert(static_cast<int>(CurlOption::kProtocols) == 181);  // deprecated, but in every version

static_assert(kCurlPretransferTime == CURLINFO_PRETRANSFER_TIME_T);
static_assert(kCurlHttp11 == CURL_HTTP_VERSION_1_1);
static_assert(kCurlProtocols == (CURLPROTO_HTTP | CURLPROTO_HTTPS));
static_assert(kCurlErrorSize == CURL_ERROR_SIZE);
static_assert(kCurlGlobalAll == CURL_GLOBAL_ALL);
static_assert(sizeof(curl_off_t) == sizeof(std::int64_t));
static_assert(sizeof(CURLcode) == sizeof(int));

static_assert(static_cast<int>(CurlCode::kOk) == CURLE_OK);
static_assert(static_cast<int>(CurlCode::kUnsupportedProtocol) == CURLE_UNSUPPORTED_PROTOCOL);
static_assert(static_cast<int>(CurlCode::kUrlMalformat) == CURLE_URL_MALFORMAT);
static_assert(static_cast<int>(CurlCode::kOperationTimedout) == CURLE_OPERATION_TIMEDOUT);
static_assert(static_cast<int>(CurlCode::kSslCertproblem) == CURLE_SSL_CERTPROBLEM);
static_assert(static_cast<int>(CurlCode::kSslCipher) == CURLE_SSL_CIPHER);
static_assert(static_cast<int>(CurlCode::kPeerFailedVerification) ==
              CURLE_PEER_FAILED_VERIFICATION);
static_assert(static_cast<int>(CurlCode::kSslCacertBadfile) == CURLE_SSL_CACERT_BADFILE);
static_assert(static_cast<int>(CurlCode::kSslIssuerError) == CURLE_SSL_ISSUER_ERROR);

TEST(CurlApi, Loads) {
  EXPECT_EQ(std::string(curl_api().easy_strerror(CURLE_OK)), "No error");
  EXPECT_EQ(&curl_api(), &curl_api());
}

}  // namespace
}  // namespace cairn::object
