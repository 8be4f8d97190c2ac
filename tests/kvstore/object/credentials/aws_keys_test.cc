#include <cairn/kvstore/object/credentials/aws_keys.h>
#include <gmock/gmock.h>

#include <string>
#include <vector>

#include "tests/support/damage.h"
#include "tests/support/matchers.h"

namespace cairn::object {
namespace {

using cairn::testing::error_of;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::Optional;

constexpr std::string_view kKeysJson =
    R"({"Code": "Success", "AccessKeyId": "AKIDSECRET", "SecretAccessKey": "s/SECRET+", )"
    R"("Token": "tSECRET==", "Expiration": "2026-11-28T14:00:00Z"})";
constexpr std::string_view kKeysXml =
    "<AssumeRoleWithWebIdentityResponse xmlns=\"https://sts.amazonaws.com/doc/2011-06-15/\">"
    "<AssumeRoleWithWebIdentityResult><Credentials><AccessKeyId>AKIDSECRET</AccessKeyId>"
    "<SecretAccessKey>s/SECRET+</SecretAccessKey><SessionToken>tSECRET==</SessionToken>"
    "<Expiration>2026-11-28T14:00:00Z</Expiration></Credentials>"
    "</AssumeRoleWithWebIdentityResult></AssumeRoleWithWebIdentityResponse>";

const AwsKeys kParsedKeys = {.access_key = "AKIDSECRET",
                             .secret_key = "s/SECRET+",
                             .session_token = "tSECRET==",
                             .expires_s = 1'795'874'400};

std::string with_text_replaced(std::string_view text, const std::string& from,
                               const std::string& to) {
  std::string out(text);
  const std::size_t at = out.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return out.replace(at, from.size(), to);
}

TEST(AwsKeys, AreReadFromJson) {
  EXPECT_EQ(parse_json_keys(kKeysJson), kParsedKeys);
  EXPECT_EQ(parse_json_keys(with_text_replaced(kKeysJson, "\"Token\"", "\"SessionToken\"")),
            kParsedKeys);
  EXPECT_EQ(parse_json_keys(with_text_replaced(kKeysJson, "00Z", "00+00:00")), kParsedKeys);
  EXPECT_EQ(
      parse_json_keys(with_text_replaced(kKeysJson, "\"2026-11-28T14:00:00Z\"", "null")).expires_s,
      std::nullopt);
  EXPECT_EQ(parse_json_keys(R"({"AccessKeyId": "a", "SecretAccessKey": "b"})"),
            (AwsKeys{.access_key = "a", .secret_key = "b"}));
}

TEST(AwsKeys, AreReadFromXml) { EXPECT_EQ(parse_sts_keys(kKeysXml), kParsedKeys); }

TEST(AwsKeys, RefusesDamagedJsonWithoutShowingIt) {
  const std::vector<std::pair<std::string, std::string>> table = {
      {"", ""},
      {"[]", "not a JSON object"},
      {"{}", "no usable access key"},
      {std::string(kKeysJson) + "x", ""},
      {with_text_replaced(kKeysJson, "\"AccessKeyId\"", "\"x\""), "no usable access key"},
      {with_text_replaced(kKeysJson, "s/SECRET+", ""), "no usable secret key"},
      {with_text_replaced(kKeysJson, "s/SECRET+", "SECRET\\n"), "no usable secret key"},
      {with_text_replaced(kKeysJson, "\"s/SECRET+\"", "[\"SECRET\"]"),
       "SecretAccessKey is not a string"},
      {with_text_replaced(kKeysJson, "tSECRET==", "SECRET \\u00e4"), "no usable session token"},
      {with_text_replaced(kKeysJson, "2026-11-28T14:00:00Z", "SECRET"), "expire cannot be read"},
      {std::string(70'000, ' '), ""},
      {std::string(5'000, '['), ""}};
  for (const auto& [text, why] : table) {
    const Error error = error_of([&damaged = text] { (void)parse_json_keys(damaged); });
    EXPECT_EQ(error.code(), Code::kDataLoss);
    EXPECT_THAT(error.message(), HasSubstr(why));
    EXPECT_THAT(error.message(), Not(HasSubstr("SECRET")));
  }
}

TEST(AwsKeys, RefusesDamagedXmlWithoutShowingIt) {
  for (const std::string& text :
       {std::string(), std::string("<a/>"),
        with_text_replaced(kKeysXml, "<Credentials>", "<Other>"),
        with_text_replaced(kKeysXml, "AKIDSECRET", ""),
        with_text_replaced(kKeysXml, "s/SECRET+", "SEC RET"),
        with_text_replaced(kKeysXml, "2026-11-28T14:00:00Z", "SECRET"),
        with_text_replaced(kKeysXml, "SessionToken>t", "SessionToken>&SECRET;")}) {
    const Error error = error_of([&] { (void)parse_sts_keys(text); });
    EXPECT_EQ(error.code(), Code::kDataLoss);
    EXPECT_THAT(error.message(), Not(HasSubstr("SECRET")));
  }
}

TEST(AwsKeys, RefusesEveryTruncation) {
  cairn::testing::for_each_truncation(
      as_bytes(kKeysJson), [](ByteView bad, const std::string& what) {
        EXPECT_THROW((void)parse_json_keys(as_text(bad)), Error) << what;
      });
  cairn::testing::for_each_truncation(
      as_bytes(kKeysXml), [](ByteView bad, const std::string& what) {
        EXPECT_THROW((void)parse_sts_keys(as_text(bad)), Error) << what;
      });
}

}  // namespace
}  // namespace cairn::object
