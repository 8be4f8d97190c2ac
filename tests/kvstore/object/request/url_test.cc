// url_test.cc -- URLs of stores, and keys.
#include <cairn/kvstore/object/request/url.h>
#include <gmock/gmock.h>

#include "tests/support/matchers.h"

namespace cairn::object {
namespace {

using cairn::testing::FailsWith;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(StoreUrl, HasABucketAndALiteralPrefix) {
  const StoreUrl url = parse_store_url("s3://my-bucket/run 1/%41?#/");
  EXPECT_EQ(url.scheme, StoreScheme::kS3);
  EXPECT_EQ(url.bucket, "my-bucket");
  EXPECT_EQ(url.prefix, "run 1/%41?#");
  EXPECT_EQ(parse_store_url("gs://b").scheme, StoreScheme::kGcs);
  EXPECT_EQ(parse_store_url("gs://b//").prefix, "");
}

TEST(StoreUrl, OfAWebServerIsEncoded) {
  const StoreUrl url = parse_store_url("https://[::1]:8080/a%20b/c/");
  EXPECT_EQ(url.origin, "https://[::1]:8080");
  EXPECT_EQ(url.path, "/a%20b/c");
  EXPECT_EQ(parse_store_url("http://h").path, "");
}

TEST(StoreUrl, RefusesWhatCannotBeMeant) {
  for (const char* bad : {"",
                          "s3:/b",
                          "ftp://h/a",
                          "s3://",
                          "s3:///k",
                          "s3://b@d/k",
                          "s3://../k",
                          "s3://b:80/k",
                          "s3://b/a//b",
                          "s3://b/./k",
                          "s3://b/a/../k",
                          "http://",
                          "http:///x",
                          "http://h/a?b",
                          "http://h/a#b",
                          "http://u:p@h/a",
                          "http://h/a b",
                          "http://h/\xc3\xbc",
                          "http://h/%2",
                          "http://h/%00",
                          "http://h//a",
                          "http://h/a/../b",
                          "http://h/%2e%2e/b",
                          "http://h/a\nb"})
    EXPECT_THAT([&] { (void)parse_store_url(bad); }, FailsWith(Code::kInvalidArgument, "URL \""))
        << bad;
}

TEST(StoreUrl, IsNotShownWithItsSecrets) {
  for (const char* secret : {"http://user:hidden@h/a", "http://h/a?sig=hidden", "x://y?hidden"})
    EXPECT_THAT(cairn::testing::error_of([&] { (void)parse_store_url(secret); }).message(),
                Not(HasSubstr("hidden")));
}

TEST(ObjectKeys, AreThoseThatAFolderCouldHold) {
  for (const char* good : {"a", "a/b", "...", "a b", "%41", "\xc3\xa9/\x01 x", "a\\b"})
    EXPECT_EQ(flaw_of_object_key(good), nullptr) << good;
  EXPECT_EQ(flaw_of_object_key(std::string(1024, 'k')), nullptr);
  for (const std::string& bad :
       {std::string("a//b"), std::string("/a"), std::string("a/"), std::string("."),
        std::string("a/../b"), std::string("a\0b", 3), std::string("\xff"), std::string(1025, 'k')})
    EXPECT_THAT([&] { check_object_key(bad); }, FailsWith(Code::kInvalidArgument, "key \"")) << bad;
  EXPECT_THAT([] { check_object_key(""); }, FailsWith(Code::kInvalidArgument, "the key is empty"));
}

TEST(ObjectKeys, BeginWithCertainPrefixes) {
  for (const char* good : {"", "a", "a/", "a/.", "..", "a/b/c"})
    EXPECT_TRUE(may_begin_object_keys(good)) << good;
  for (const char* bad : {"/", "a//", "a/../", "./a", "//"})
    EXPECT_FALSE(may_begin_object_keys(bad)) << bad;
}

}  // namespace
}  // namespace cairn::object
