#include <cairn/kvstore/object/http/http_redirect.h>
#include <gmock/gmock.h>

#include <string>

#include "tests/support/matchers.h"

namespace cairn::object {
namespace {

using cairn::testing::FailsWith;

std::string resolved_location(std::string_view location) {
  return resolve_location("https://h:8/a/b/c?q=1", location).value_or("(none)");
}

TEST(ResolveLocation, TakesAbsoluteAndRelativeUrls) {
  EXPECT_EQ(resolved_location("http://x/y?z#f"), "http://x/y?z");
  EXPECT_EQ(resolved_location("https://x"), "https://x");
  EXPECT_EQ(resolved_location("//x/y"), "https://x/y");
  EXPECT_EQ(resolved_location("/y%20z?p"), "https://h:8/y%20z?p");
  EXPECT_EQ(resolved_location("y"), "https://h:8/a/b/y");
  EXPECT_EQ(resolved_location("./y/./z"), "https://h:8/a/b/y/z");
  EXPECT_EQ(resolved_location("../y"), "https://h:8/a/y");
  EXPECT_EQ(resolved_location("../../../../y"), "https://h:8/y");
  EXPECT_EQ(resolved_location(".."), "https://h:8/a/");
  EXPECT_EQ(resolved_location("?r"), "https://h:8/a/b/c?r");
  EXPECT_EQ(resolved_location("y?u=http://x"), "https://h:8/a/b/y?u=http://x");
  EXPECT_EQ(resolved_location("/y:z"), "https://h:8/y:z");
  EXPECT_EQ(resolve_location("http://h", "y"), "http://h/y");
}

TEST(ResolveLocation, RefusesOtherUrls) {
  for (const char* location : {"", "ftp://x/y", "javascript:x", "file:///etc/passwd", "http://",
                               "http:///x", "//", "http://u@x/", "http://u:p@x/", "http://x/a b",
                               "http://x/\xc3\xa4", "http://x/\n", "http://x\\y/", "HTTP:x"})
    EXPECT_EQ(resolved_location(location), "(none)") << location;
  EXPECT_EQ(resolved_location("/" + std::string(9'000, 'x')), "(none)");
}

TEST(CheckRedirect, KeepsToTls) {
  check_redirect("https://a/", "https://b/");
  check_redirect("http://a/", "http://b/");
  check_redirect("http://a/", "https://b/");
  EXPECT_THAT([] { check_redirect("https://a/", "http://a/"); },
              FailsWith(Code::kUnimplemented, "from https:// to http://"));
}

}  // namespace
}  // namespace cairn::object
