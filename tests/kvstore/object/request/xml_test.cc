// xml_test.cc -- the reader of S3's documents.
#include <cairn/kvstore/object/request/xml.h>
#include <gmock/gmock.h>

#include "tests/support/matchers.h"

namespace cairn::object {
namespace {

using cairn::testing::FailsWith;

TEST(Xml, ReadsElementsTextAndEntities) {
  const XmlElement root = parse_xml(
      "\xef\xbb\xbf<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<!-- a --><ns:A xmlns:ns='u>' b = "
      "\"c\"><ns:B>x &lt;&gt;&amp;&quot;&apos;&#65;&#x42;&#x20AC;</ns:B><C/><B>second</B ></ns:A> "
      "<!-- b -->\n");
  EXPECT_EQ(root.name, "A");
  EXPECT_EQ(root.text_of("B"), "x <>&\"'AB\xe2\x82\xac");
  EXPECT_EQ(root.children.size(), 3U);
  EXPECT_NE(root.find("C"), nullptr);
  EXPECT_EQ(root.find("D"), nullptr);
  EXPECT_EQ(root.text_of("D"), "");
}

TEST(Xml, RefusesDamage) {
  for (const char* bad : {"",
                          " ",
                          "x",
                          "<",
                          "<a",
                          "<a>",
                          "<a/",
                          "<a></b>",
                          "<a></a",
                          "<a/><b/>",
                          "<a/>x",
                          "<a b/>",
                          "<a b=c/>",
                          "<a b='c/>",
                          "<a>&unknown;</a>",
                          "<a>&#0;</a>",
                          "<a>&#xd800;</a>",
                          "<a>&#1114112;</a>",
                          "<a>&#;</a>",
                          "<a>&#xg;</a>",
                          "<a>&amp</a>",
                          "<a>&#99999999999;</a>",
                          "<!DOCTYPE a><a/>",
                          "<a><!ENTITY b 'c'></a>",
                          "<a><![CDATA[x]]></a>",
                          "<!-- a",
                          "<?xml",
                          "</a>",
                          "<a><b></a></b>",
                          "< a/>"})
    EXPECT_THAT([&] { (void)parse_xml(bad); }, FailsWith(Code::kDataLoss, "at byte")) << bad;
}

TEST(Xml, BoundsWhatItReads) {
  std::string deep, flat = "<a>";
  for (int i = 0; i < 100'000; ++i) deep += "<a>", flat += "<a/>";
  EXPECT_THAT([&] { (void)parse_xml(deep); }, FailsWith(Code::kDataLoss, "too deeply"));
  flat += "</a>";
  EXPECT_THAT([&] { (void)parse_xml(flat); }, FailsWith(Code::kDataLoss, "too many elements"));
  EXPECT_THAT([&] { (void)parse_xml("<a/>", {.max_bytes = 3}); },
              FailsWith(Code::kDataLoss, "too long"));
}

}  // namespace
}  // namespace cairn::object
