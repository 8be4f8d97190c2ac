// UTF-8 characters: every code point, and bytes that are not UTF-8.
#include <cairn/base/utf8.h>
#include <gtest/gtest.h>

#include <string>

namespace cairn {
namespace {

TEST(Utf8, DecodesWhatItAppends) {
  for (std::uint32_t code = 0; code <= 0x10ffff; ++code) {
    if (code >= 0xd800 && code < 0xe000) continue;
    std::string text;
    append_utf8(text, code);
    const Utf8Character c = decode_utf8(text + "\x80");
    ASSERT_TRUE(c.valid) << code;
    ASSERT_EQ(c.code, code);
    ASSERT_EQ(c.length, text.size());
    ASSERT_TRUE(valid_utf8(text)) << code;
  }
}

TEST(Utf8, ReturnsAnInvalidByteAlone) {
  for (const std::string_view text :
       {"\x80", "\xbf", "\xc0\x80", "\xc1\xbf", "\xc3", "\xc3(", "\xe0\x9f\xbf", "\xe2\x82",
        "\xed\xa0\x80", "\xed\xbf\xbf", "\xf0\x8f\xbf\xbf", "\xf0\x9f\x98", "\xf4\x90\x80\x80",
        "\xf5\x80\x80\x80", "\xff"}) {
    const Utf8Character c = decode_utf8(text);
    EXPECT_FALSE(c.valid) << text;
    EXPECT_EQ(c.length, 1U);
    EXPECT_EQ(c.code, static_cast<unsigned char>(text[0]));
    EXPECT_EQ(find_invalid_utf8("eight ch" + std::string(text)), 8U);
  }
}

}  // namespace
}  // namespace cairn
