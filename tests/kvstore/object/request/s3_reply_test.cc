// s3_reply_test.cc -- answers of S3, as two servers give them, and damaged ones.
#include <cairn/kvstore/object/request/content_range.h>
#include <cairn/kvstore/object/request/percent.h>
#include <cairn/kvstore/object/request/s3_reply.h>
#include <gmock/gmock.h>

#include "tests/support/matchers.h"

namespace cairn::object {
namespace {

using cairn::testing::FailsWith;
using ::testing::ElementsAre;

const std::string kListing =
    "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<ListBucketResult "
    "xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"><Name>b</Name><Prefix>p%2F</Prefix>"
    "<EncodingType>url</EncodingType><KeyCount>2</KeyCount><IsTruncated>true</IsTruncated>"
    "<NextContinuationToken>t&amp;1</NextContinuationToken>"
    "<Contents><Key>p%2Fa+b</Key><LastModified>1970-01-01T00:00:02Z</LastModified>"
    "<ETag>&#34;e1&#34;</ETag><Size>5</Size></Contents>"
    "<Contents><Key>p/c%2B%2541</Key><ETag>&quot;e2&quot;</ETag><Size>0</Size></Contents>"
    "<CommonPrefixes><Prefix>p/d/</Prefix></CommonPrefixes></ListBucketResult>";

TEST(S3Reply, ReadsAPageOfAListing) {
  const ListPage page = parse_list_page(kListing);
  EXPECT_THAT(page.values, ElementsAre(StoredValue{"p/a b", 5, "\"e1\"", 2'000'000'000},
                                       StoredValue{"p/c+%41", 0, "\"e2\"", 0}));
  EXPECT_THAT(page.folders, ElementsAre("p/d/"));
  EXPECT_EQ(page.next, "t&1");
}

// Replaces the first `from` of the listing.
std::string with_damage(std::string_view from, std::string_view to) {
  std::string damaged = kListing;
  return damaged.replace(damaged.find(from), from.size(), to);
}

TEST(S3Reply, RefusesDamagedListings) {
  const std::pair<const char*, const char*> damages[] = {
      {"<Size>5</Size>", ""},
      {"<Size>5", "<Size>-5"},
      {"<Size>5", "<Size>5x"},
      {"<Size>5", "<Size>9223372036854775808"},
      {"<Key>p%2Fa+b</Key>", ""},
      {"p%2Fa+b", "p%2"},
      {"p%2Fa+b", "p%zza"},
      {"<IsTruncated>true</IsTruncated>", ""},
      {"<IsTruncated>true", "<IsTruncated>yes"},
      {"<NextContinuationToken>t&amp;1</NextContinuationToken>", ""},
      {"t&amp;1", ""},
      {"<Prefix>p/d/</Prefix>", ""},
      {"</ListBucketResult>", ""}};
  for (const auto& damage : damages) {
    const std::string xml = with_damage(damage.first, damage.second);
    EXPECT_THAT([&] { (void)parse_list_page(xml); }, FailsWith(Code::kDataLoss)) << xml;
  }
  EXPECT_THAT([] { (void)parse_list_page("<Error/>"); },
              FailsWith(Code::kDataLoss, "the answer is <Error>, not <ListBucketResult>"));
}

TEST(S3Reply, LeavesKeysAloneThatAreNotEncoded) {
  const ListPage page = parse_list_page(
      "<ListBucketResult><IsTruncated>false</IsTruncated><Contents><Key>a+%41</Key><Size>1</Size>"
      "</Contents></ListBucketResult>");
  EXPECT_EQ(page.values.at(0).key, "a+%41");
  EXPECT_EQ(page.next, "");
}

TEST(S3Reply, ReadsUploads) {
  EXPECT_EQ(parse_upload_id("<InitiateMultipartUploadResult><UploadId>u 1</UploadId>"
                            "</InitiateMultipartUploadResult>"),
            "u 1");
  EXPECT_THAT([] { (void)parse_upload_id("<InitiateMultipartUploadResult/>"); },
              FailsWith(Code::kDataLoss, "UploadId"));
  const UploadPage page = parse_upload_page(
      "<ListMultipartUploadsResult><EncodingType>url</EncodingType><IsTruncated>true</IsTruncated>"
      "<NextKeyMarker>a%2Fb</NextKeyMarker><NextUploadIdMarker>u</NextUploadIdMarker><Upload><Key>"
      "a%20b</Key><UploadId>u</UploadId><Initiated>1970-01-01T00:00:01Z</Initiated></Upload>"
      "</ListMultipartUploadsResult>");
  ASSERT_EQ(page.uploads.size(), 1U);
  EXPECT_EQ(page.uploads[0].key, "a b");
  EXPECT_EQ(page.uploads[0].started_ns, 1'000'000'000);
  EXPECT_EQ(page.next_key, "a/b");
}

TEST(S3Reply, FindsTheErrorInASuccess) {
  const ObjectResult good = parse_object_result(
      "<CompleteMultipartUploadResult><ETag>\"e-2\"</ETag>"
      "</CompleteMultipartUploadResult>");
  EXPECT_EQ(good.version, "\"e-2\"");
  EXPECT_EQ(good.error, "");
  EXPECT_EQ(parse_object_result("<Error><Code>InternalError</Code></Error>").error,
            "InternalError");
  EXPECT_EQ(parse_object_result("<Error/>").error, "Error");
  EXPECT_THAT([] { (void)parse_object_result("<html/>"); }, FailsWith(Code::kDataLoss));
}

TEST(S3Reply, ReadsWhatCouldNotBeRemoved) {
  const auto failures = parse_delete_result(
      "<DeleteResult><Deleted><Key>a</Key></Deleted><Error><Key>b</Key><Code>AccessDenied</Code>"
      "</Error></DeleteResult>");
  ASSERT_EQ(failures.size(), 1U);
  EXPECT_EQ(failures[0].key, "b");
  EXPECT_EQ(failures[0].code, "AccessDenied");
}

TEST(ContentRange, HasThreeForms) {
  const auto part = parse_content_range("bytes 2-9/100");
  ASSERT_TRUE(part);
  EXPECT_EQ(part->first, 2U);
  EXPECT_EQ(part->length, 8U);
  EXPECT_EQ(part->total, 100U);
  EXPECT_EQ(parse_content_range("bytes 0-0/*")->total, std::nullopt);
  EXPECT_EQ(parse_content_range("bytes */10")->length, 0U);
  for (const char* bad :
       {"", "bytes", "bytes ", "bytes 0-9", "0-9/10", "bytes 0-10/10", "bytes 5-4/10", "bytes */*",
        "bytes -/10", "bytes a-b/10", "bytes 0-9/x", "bytes 0-9/-1", "bytes 0-9 /10",
        "items 0-9/10", "bytes 0-18446744073709551615/18446744073709551616",
        "bytes 0-9223372036854775808/*"})
    EXPECT_FALSE(parse_content_range(bad)) << bad;
}

TEST(Percent, EncodesAllButTheUnreserved) {
  EXPECT_EQ(percent_encoded("aZ0-_.~/ +%\xc3\xa9", Slash::kKept), "aZ0-_.~/%20%2B%25%C3%A9");
  EXPECT_EQ(percent_encoded("a/b", Slash::kEncoded), "a%2Fb");
  EXPECT_EQ(percent_decoded_text("a%20b+%c3%A9"), "a b+\xc3\xa9");
  EXPECT_EQ(percent_decoded_text("a+b", true), "a b");
  for (const char* bad : {"%", "%2", "%g0", "%0g", "a%"}) EXPECT_FALSE(percent_decoded_text(bad));
}

}  // namespace
}  // namespace cairn::object
