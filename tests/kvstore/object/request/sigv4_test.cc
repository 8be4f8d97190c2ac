// sigv4_test.cc -- signatures against the examples that AWS publishes.
#include <cairn/kvstore/object/request/sigv4.h>
#include <cairn/kvstore/object/request/store_time.h>
#include <gmock/gmock.h>

namespace cairn::object {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;

constexpr std::string_view kEmptyHash =
    "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

// "Signature Calculations for the Authorization Header" of the S3 documentation.
const SigningKey kS3Key{.access_key = "AKIAIOSFODNN7EXAMPLE",
                        .secret_key = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
                        .region = "us-east-1"};
constexpr std::int64_t kS3Time = 1369353600;  // 2013-05-24 00:00:00 UTC
const std::string kBucket = "https://examplebucket.s3.amazonaws.com";

TEST(SigV4, SignsAGetWithARange) {
  HttpRequest request{.method = "GET", .url = kBucket + "/test.txt"};
  request.headers.add("Range", "bytes=0-9");
  const SignedParts parts = sign_v4(request, kEmptyHash, kS3Key, kS3Time);
  EXPECT_EQ(parts.authorization,
            "AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request, "
            "SignedHeaders=host;range;x-amz-content-sha256;x-amz-date, "
            "Signature=f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41");
  EXPECT_EQ(request.headers.find("authorization"), parts.authorization);
  EXPECT_EQ(request.headers.find("x-amz-date"), "20130524T000000Z");
}

TEST(SigV4, SignsAPutWithItsBody) {
  HttpRequest request{.method = "PUT", .url = kBucket + "/test%24file.text"};
  request.headers.add("Date", "Fri, 24 May 2013 00:00:00 GMT");
  request.headers.add("x-amz-storage-class", "REDUCED_REDUNDANCY");
  const ByteView body[] = {as_bytes("Welcome to "), as_bytes("Amazon S3.")};
  request.body = body;
  const SignedParts parts = sign_v4(request, payload_hash_of(request), kS3Key, kS3Time);
  EXPECT_THAT(parts.authorization,
              EndsWith("98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd"));
}

TEST(SigV4, SignsQueries) {
  HttpRequest lifecycle{.method = "GET", .url = kBucket + "/?lifecycle"};
  EXPECT_THAT(sign_v4(lifecycle, kEmptyHash, kS3Key, kS3Time).authorization,
              EndsWith("fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543"));
  HttpRequest list{.method = "GET", .url = kBucket + "/?prefix=J&max-keys=2"};
  EXPECT_THAT(sign_v4(list, kEmptyHash, kS3Key, kS3Time).authorization,
              EndsWith("34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7"));
}

// The suite "aws-sig-v4-test-suite", for services other than S3.
const SigningKey kSuiteKey{.access_key = "AKIDEXAMPLE",
                           .secret_key = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY",
                           .region = "us-east-1",
                           .service = "service"};
constexpr std::int64_t kSuiteTime = 1440938160;  // 2015-08-30 12:36:00 UTC

TEST(SigV4, PassesTheSuiteOfAws) {
  struct Case {
    const char *method, *target, *signature;
  };
  const Case cases[] = {
      {"GET", "/", "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"},
      {"GET", "/?Param2=value2&Param1=value1",
       "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500"},
      {"POST", "/", "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b"}};
  for (const Case& each : cases) {
    HttpRequest request{.method = each.method,
                        .url = std::string("https://example.amazonaws.com") + each.target};
    EXPECT_THAT(sign_v4(request, kEmptyHash, kSuiteKey, kSuiteTime).authorization,
                EndsWith(each.signature))
        << each.target;
  }
}

TEST(SigV4, SignsTokensAndNormalisesHeaders) {
  SigningKey key = kS3Key;
  key.session_token = "token";
  HttpRequest request{.method = "GET", .url = "http://localhost:9000/b/k"};
  request.headers.add("My-Header", "  a   b ");
  request.headers.add("my-header", "c");
  const SignedParts parts = sign_v4(request, kUnsignedPayload, key, kS3Time);
  EXPECT_EQ(parts.canonical_request,
            "GET\n/b/k\n\nhost:localhost:9000\nmy-header:a b,c\n"
            "x-amz-content-sha256:UNSIGNED-PAYLOAD\nx-amz-date:20130524T000000Z\n"
            "x-amz-security-token:token\n\n"
            "host;my-header;x-amz-content-sha256;x-amz-date;x-amz-security-token\n"
            "UNSIGNED-PAYLOAD");
  EXPECT_THAT(parts.string_to_sign, HasSubstr("20130524/us-east-1/s3/aws4_request"));
}

TEST(SigV4, SignsTheHostThatClientsSend) {
  for (const auto& [url, host] : {std::pair{"http://h:80/b", "h"},
                                  {"https://h:443/b", "h"},
                                  {"https://h:80/b", "h:80"},
                                  {"http://[::1]:80/b", "[::1]"}}) {
    HttpRequest request{.method = "GET", .url = url};
    const SignedParts parts = sign_v4(request, kUnsignedPayload, kS3Key, kS3Time);
    EXPECT_THAT(parts.canonical_request, HasSubstr("\nhost:" + std::string(host) + "\n")) << url;
  }
}

TEST(StoreTime, ReadsTheFormsOfAnswers) {
  EXPECT_EQ(compact_time(kSuiteTime), "20150830T123600Z");
  EXPECT_EQ(ns_of_iso_time("2015-08-30T12:36:00.000Z"), kSuiteTime * 1'000'000'000);
  EXPECT_EQ(ns_of_iso_time("2015-08-30T12:36:00Z"), kSuiteTime * 1'000'000'000);
  EXPECT_EQ(ns_of_iso_time("1970-01-01T00:00:01.5Z"), 1'500'000'000);
  EXPECT_EQ(ns_of_http_date("Sun, 30 Aug 2015 12:36:00 GMT"), kSuiteTime * 1'000'000'000);
  for (const char* bad :
       {"", "Z", "2015-08-30T12:36:00", "2015-13-30T12:36:00Z", "2015-02-30T12:36:00Z",
        "2015-08-30T24:36:00Z", "2015-08-30 12:36:00Z", "2015-08-30T12:36:00.1234567890Z",
        "2015-08-30T12:36:00,5Z", "9999-08-30T12:36:00Z", "2o15-08-30T12:36:00Z"})
    EXPECT_EQ(ns_of_iso_time(bad), 0) << bad;
  for (const char* bad : {"", "Sun, 30 Xug 2015 12:36:00 GMT", "Sun, 30 anF 2015 12:36:00 GMT",
                          "Sun, 30 Aug 2015 12:36:00 UTC", "Sunday, 30-Aug-15 12:36:00 GMT"})
    EXPECT_EQ(ns_of_http_date(bad), 0) << bad;
}

}  // namespace
}  // namespace cairn::object
