#include <cairn/kvstore/object/gcs/gcs_reply.h>
#include <gmock/gmock.h>

#include "tests/support/damage.h"
#include "tests/support/matchers.h"

namespace cairn::object {
namespace {

using cairn::testing::FailsWith;
using ::testing::ElementsAre;

const std::string kObject =
    R"({"kind": "storage#object", "name": "run/1/_METADATA", "bucket": "b", "size": "10",)"
    R"( "generation": "1700000000000001", "crc32c": "4waSgw==",)"
    R"( "timeCreated": "2026-11-28T14:01:48.5Z", "metadata": {"x": "y", "cairn-save": "ab"},)"
    R"( "owner": {"entity": ["user", {}]}, "retention": null})";

TEST(GcsReply, ReadsAnObject) {
  EXPECT_EQ(parse_gcs_object(kObject), (GcsObject{.name = "run/1/_METADATA",
                                                  .size = 10,
                                                  .generation = 1700000000000001,
                                                  .modified_ns = 1795874508500000000,
                                                  .crc32c = 0xe3069283U,
                                                  .save = "ab"}));
}

TEST(GcsReply, ReadsAPage) {
  const GcsPage page = parse_gcs_page(R"({"kind": "storage#objects", "nextPageToken": "t/",)"
                                      R"( "prefixes": ["a/", "\u00e9/"], "items": [)" +
                                      kObject + "," + kObject + "]}");
  EXPECT_EQ(page.objects.size(), 2U);
  EXPECT_THAT(page.prefixes, ElementsAre("a/", "\xc3\xa9/"));
  EXPECT_EQ(page.next_page_token, "t/");
  EXPECT_EQ(parse_gcs_page("{}"), GcsPage{});
}

TEST(GcsReply, ReadsTheStateOfACopy) {
  const GcsRewrite part = parse_gcs_rewrite(R"({"done": false, "rewriteToken": "t"})");
  EXPECT_FALSE(part.is_done);
  EXPECT_EQ(part.token, "t");
  const GcsRewrite whole = parse_gcs_rewrite(R"({"done": true, "resource": )" + kObject + "}");
  EXPECT_TRUE(whole.is_done);
  EXPECT_EQ(whole.object->size, 10U);
}

struct BadReply {
  const char* json;
  const char* expect;
};

TEST(GcsReply, RefusesDamagedObjects) {
  const BadReply bad[] = {
      {R"([])", "reply"},
      {R"({"size": "1", "generation": "1"})", "no name"},
      {R"({"name": "", "size": "1", "generation": "1"})", "name is empty"},
      {R"({"name": 1, "size": "1", "generation": "1"})", "reply"},
      {R"({"name": "a", "generation": "1"})", "no size"},
      {R"({"name": "a", "size": "1"})", "no generation"},
      {R"({"name": "a", "size": "1", "generation": "0"})", "no generation"},
      {R"({"name": "a", "size": 1, "generation": "1"})", "reply"},
      {R"({"name": "a", "size": "", "generation": "1"})", "size"},
      {R"({"name": "a", "size": "-1", "generation": "1"})", "size"},
      {R"({"name": "a", "size": "+1", "generation": "1"})", "size"},
      {R"({"name": "a", "size": "1x", "generation": "1"})", "size"},
      {R"({"name": "a", "size": "9223372036854775808", "generation": "1"})", "63 bits"},
      {R"({"name": "a", "size": "99999999999999999999999", "generation": "1"})", "63 bits"},
      {R"({"name": "a", "size": "1", "generation": "18446744073709551617"})", "63 bits"},
      {R"({"name": "a", "size": "1", "generation": "1", "crc32c": "AAAA"})", "crc32c"},
      {R"({"name": "a", "size": "1", "generation": "1", "crc32c": "AAAA!A=="})", "crc32c"},
      {R"({"name": "a", "size": "1", "generation": "1", "timeCreated": 5})", "reply"},
      {R"({"name": "a", "size": "1", "generation": "1", "metadata": []})", "reply"},
      {R"({"name": "a", "size": "1", "generation": "1", "metadata": {"cairn-save": 1}})", "reply"},
      {R"({"name": "a", "size": "1", "generation": "1"} x)", "reply"},
  };
  for (const BadReply& reply : bad)
    EXPECT_THAT([&] { parse_gcs_object(reply.json); }, FailsWith(Code::kDataLoss, reply.expect))
        << reply.json;
  const std::string name(1025, 'n');
  EXPECT_THAT([&] { parse_gcs_object(R"({"name": ")" + name + R"("})"); },
              FailsWith(Code::kDataLoss, "too long"));
}

TEST(GcsReply, RefusesDamagedPagesAndCopies) {
  for (const char* bad : {"", "null", "[]", R"({"items": {}})", R"({"items": [{}]})",
                          R"({"items": [1]})", R"({"prefixes": [""]})", R"({"prefixes": [null]})",
                          R"({"prefixes": "a/"})", R"({"nextPageToken": 7})"})
    EXPECT_THAT([&] { parse_gcs_page(bad); }, FailsWith(Code::kDataLoss)) << bad;
  EXPECT_THAT([&] { parse_gcs_page(std::string(100000, '[')); }, FailsWith(Code::kDataLoss));
  EXPECT_THAT([&] { parse_gcs_page(R"({"x": )" + std::string(100000, '[')); },
              FailsWith(Code::kDataLoss));
  for (const char* bad : {"{}", R"({"done": false})", R"({"done": true})", R"({"done": "true"})",
                          R"({"done": false, "rewriteToken": ""})"})
    EXPECT_THAT([&] { parse_gcs_rewrite(bad); }, FailsWith(Code::kDataLoss)) << bad;
}

TEST(GcsReply, EveryTruncationIsRefused) {
  cairn::testing::for_each_truncation(as_bytes(kObject), [](ByteView bad, const std::string& what) {
    EXPECT_THAT([&] { parse_gcs_object(as_text(bad)); }, FailsWith(Code::kDataLoss)) << what;
  });
}

TEST(GcsReply, BitFlipsAreRefusedOrRead) {
  cairn::testing::for_each_bit_flip(as_bytes(kObject), [](ByteView bad, const std::string& what) {
    const auto parsed = try_call([&] { return parse_gcs_object(as_text(bad)); });
    EXPECT_TRUE(parsed || parsed.error().code() == Code::kDataLoss) << what;
  });
}

TEST(GcsReply, ReadsChecksums) {
  EXPECT_EQ(parse_crc32c("4waSgw=="), 0xe3069283U);
  EXPECT_EQ(crc32c_text(0xe3069283U), "4waSgw==");
  EXPECT_EQ(crc32c_of_hash("crc32c=4waSgw==,md5=XUFAKrxLKna5cZ2REBfFkg=="), 0xe3069283U);
  EXPECT_EQ(crc32c_of_hash("md5=XUFAKrxLKna5cZ2REBfFkg==, crc32c=4waSgw=="), 0xe3069283U);
  for (const char* none : {"", "md5=AA==", "crc32c=", "crc32c=AAAA", "crc32c=4waSgw==x"})
    EXPECT_EQ(crc32c_of_hash(none), std::nullopt) << none;
}

TEST(GcsReply, ReadsHowMuchOfAnUploadIsStored) {
  EXPECT_EQ(stored_of_range(std::nullopt), 0U);
  EXPECT_EQ(stored_of_range("bytes=0-0"), 1U);
  EXPECT_EQ(stored_of_range("bytes=0-524287"), 524288U);
  for (const char* bad : {"", "bytes", "bytes=", "bytes=0-", "bytes=1-5", "bytes=0-x", "0-5",
                          "bytes=0--1", "bytes=0-9223372036854775808", "bytes=0-5,7-9"})
    EXPECT_EQ(stored_of_range(bad), std::nullopt) << bad;
}

}  // namespace
}  // namespace cairn::object
