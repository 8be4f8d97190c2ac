// store_error_test.cc -- errors of stores, and what they must not say.
#include <cairn/kvstore/object/request/store_error.h>
#include <gmock/gmock.h>

#include "tests/kvstore/object/support/scripted_transport.h"
#include "tests/support/matchers.h"

namespace cairn::object {
namespace {

using testing::answer;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::s3_error;

const HttpRequest kGet{.method = "GET", .url = "https://h/b/k?X-Amz-Signature=s"};

TEST(StoreError, MapsAnswersToCodes) {
  const auto error = [](int status, std::string_view code) {
    return error_of_answer(kGet, answer(status, s3_error(code)));
  };
  EXPECT_EQ(error(404, "NoSuchKey").code(), Code::kNotFound);
  EXPECT_EQ(error(404, "NoSuchKey").message(),
            "GET https://h/b/k: 404 NoSuchKey, request id R-1: no such object");
  EXPECT_THAT(error(404, "NoSuchBucket").message(), HasSubstr("no such bucket"));
  EXPECT_EQ(error(403, "SignatureDoesNotMatch").code(), Code::kIo);
  EXPECT_THAT(error(403, "SignatureDoesNotMatch").message(), HasSubstr("the secret key is wrong"));
  EXPECT_EQ(error(412, "PreconditionFailed").code(), Code::kFailedPrecondition);
  EXPECT_EQ(error(416, "InvalidRange").code(), Code::kOutOfRange);
  EXPECT_EQ(error(501, "NotImplemented").code(), Code::kUnimplemented);
  EXPECT_EQ(error(418, "Teapot").code(), Code::kIo);
  EXPECT_THAT(error(403, "AccessDenied").message(), Not(HasSubstr("not for logs")));
}

TEST(StoreError, ARefusedHeadMayMeanThatTheObjectIsMissing) {
  const Error error = error_of_answer({.method = "HEAD", .url = "http://h/b/k"}, answer(403));
  EXPECT_EQ(error.code(), Code::kIo);
  EXPECT_THAT(error.message(), HasSubstr("or the object does not exist"));
}

TEST(StoreError, NamesTheRegionOfABucket) {
  const HttpResponse moved = answer(301, "", {{"x-amz-bucket-region", "eu-west-3"}});
  const Error error = error_of_answer(kGet, moved);
  EXPECT_EQ(error.code(), Code::kInvalidArgument);
  EXPECT_THAT(error.message(), HasSubstr("the bucket is in region eu-west-3"));
  EXPECT_EQ(error_reply_of(answer(400,
                                  "<Error><Code>AuthorizationHeaderMalformed</Code>"
                                  "<Region>us-west-2</Region></Error>"))
                .region,
            "us-west-2");
}

TEST(StoreError, ReadsGooglesErrors) {
  const HttpResponse refused = answer(
      403, R"({"error": {"code": 403, "message": "m", "errors": [{"reason": "forbidden"}]}})",
      {{"X-GUploader-UploadID", "AB-1"}});
  EXPECT_EQ(error_reply_of(refused).code, "forbidden");
  EXPECT_EQ(error_reply_of(refused).request_id, "AB-1");
  EXPECT_EQ(error_reply_of(answer(400, R"({"error": "invalid_grant"})")).code, "invalid_grant");
}

TEST(StoreError, DoesNotTrustTheBody) {
  const std::vector<std::string> damaged = {
      "",
      "<",
      "{",
      "<Error>",
      "<html><body>no</body></html>",
      "{\"error\": 1}",
      "{\"error\": {\"errors\": []}}",
      "{\"error\": {\"errors\": [1]}}",
      "<Error><Code>two words</Code></Error>",
      "<Error><Code>" + std::string(200, 'a') + "</Code></Error>",
      "<Error><Code>a&#10;b</Code></Error>",
      std::string(100000, '<')};
  for (const auto& body : damaged) EXPECT_EQ(error_reply_of(answer(500, body)).code, "") << body;
}

TEST(StoreError, HidesUsersAndQueries) {
  EXPECT_EQ(place_of({.method = "PUT", .url = "http://me:pw@h:1/b/k%40?a=b"}),
            "PUT http://h:1/b/k%40");
  EXPECT_EQ(place_of({.method = "GET", .url = "http://h/b/@k#f"}), "GET http://h/b/@k");
}

}  // namespace
}  // namespace cairn::object
