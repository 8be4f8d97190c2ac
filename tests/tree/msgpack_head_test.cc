// msgpack_head_test.cc -- every head in its shortest spelling, and read back.
#include <cairn/tree/msgpack/head.h>

#include <gmock/gmock.h>

#include <string>

#include "tests/support/hex.h"
#include "tests/support/matchers.h"

namespace cairn {
namespace {

using testing::FailsWith;
using testing::to_hex;
using Type = MsgpackType;

std::string encoded(const MsgpackHead& head) { return to_hex(encode_msgpack_head(head).view()); }

TEST(MsgpackHead, IntegersTakeAsFewBytesAsTheyCan) {
  const struct {
    std::int64_t value;
    const char* bytes;
  } kSigned[] = {
      {0, "00"},
      {127, "7f"},
      {128, "cc80"},
      {255, "ccff"},
      {256, "cd0100"},
      {65535, "cdffff"},
      {65536, "ce00010000"},
      {4294967295, "ceffffffff"},
      {4294967296, "cf0000000100000000"},
      {INT64_MAX, "cf7fffffffffffffff"},
      {-1, "ff"},
      {-32, "e0"},
      {-33, "d0df"},
      {-128, "d080"},
      {-129, "d1ff7f"},
      {-32768, "d18000"},
      {-32769, "d2ffff7fff"},
      {INT32_MIN, "d280000000"},
      {std::int64_t{INT32_MIN} - 1, "d3ffffffff7fffffff"},
      {INT64_MIN, "d38000000000000000"},
  };
  for (const auto& [value, bytes] : kSigned)
    EXPECT_EQ(encoded(msgpack_integer(value)), bytes) << value;
  EXPECT_EQ(encoded({.type = Type::kUint, .length = UINT64_MAX}), "cfffffffffffffffff");
}

TEST(MsgpackHead, EveryOtherType) {
  EXPECT_EQ(encoded({}), "c0");
  EXPECT_EQ(encoded({.type = Type::kBool, .truth = false}), "c2");
  EXPECT_EQ(encoded({.type = Type::kBool, .truth = true}), "c3");
  EXPECT_EQ(encoded({.type = Type::kFloat, .number = 1.5}), "cb3ff8000000000000");
  const struct {
    Type type;
    std::uint64_t length;
    const char* bytes;
  } kSized[] = {
      {Type::kText, 0, "a0"},
      {Type::kText, 31, "bf"},
      {Type::kText, 32, "d920"},
      {Type::kText, 255, "d9ff"},
      {Type::kText, 256, "da0100"},
      {Type::kText, 65536, "db00010000"},
      {Type::kBin, 0, "c400"},
      {Type::kBin, 256, "c50100"},
      {Type::kBin, 65536, "c600010000"},
      {Type::kArray, 0, "90"},
      {Type::kArray, 15, "9f"},
      {Type::kArray, 16, "dc0010"},
      {Type::kArray, 65535, "dcffff"},
      {Type::kArray, 65536, "dd00010000"},
      {Type::kMap, 15, "8f"},
      {Type::kMap, 16, "de0010"},
      {Type::kMap, 65536, "df00010000"},
      {Type::kMap, 0xffffffff, "dfffffffff"},
  };
  for (const auto& [type, length, bytes] : kSized)
    EXPECT_EQ(encoded({.type = type, .length = length}), bytes);
  const std::pair<std::uint64_t, const char*> kExtensions[] = {
      {0, "c70004"},  {1, "d404"},     {2, "d504"},       {3, "c70304"},
      {4, "d604"},    {8, "d704"},     {16, "d804"},      {17, "c71104"},
      {32, "c72004"}, {255, "c7ff04"}, {256, "c8010004"}, {65536, "c90001000004"}};
  for (const auto& [length, bytes] : kExtensions)
    EXPECT_EQ(encoded({.type = Type::kExt, .length = length, .ext = 4}), bytes);
}

TEST(MsgpackHead, ReadsBackWhatItWrote) {
  std::vector<MsgpackHead> heads = {
      {}, {.type = Type::kBool, .truth = true}, {.type = Type::kFloat, .number = -0.5}};
  for (unsigned bit = 0; bit < 64; ++bit)
    for (const std::int64_t near : {-1, 0, 1})
      heads.push_back(msgpack_integer(
          static_cast<std::int64_t>((std::uint64_t{1} << bit) + static_cast<std::uint64_t>(near))));
  for (const Type type : {Type::kText, Type::kBin, Type::kArray, Type::kMap, Type::kExt})
    for (const std::uint64_t length :
         {0, 1, 2, 3, 4, 8, 15, 16, 17, 31, 32, 255, 256, 65535, 65536})
      heads.push_back({.type = type,
                       .length = length,
                       .ext = static_cast<std::int8_t>(type == Type::kExt ? -5 : 0)});
  for (const MsgpackHead& head : heads) {
    const MsgpackHeadBytes bytes = encode_msgpack_head(head);
    ByteReader in(bytes.view());
    const MsgpackHead back = read_msgpack_head(in);
    in.finish();
    EXPECT_EQ(back.type, head.type) << to_hex(bytes.view());
    EXPECT_EQ(back.length, head.length) << to_hex(bytes.view());
    EXPECT_EQ(back.integer, head.integer) << to_hex(bytes.view());
    EXPECT_EQ(back.number, head.number) << to_hex(bytes.view());
    EXPECT_EQ(back.truth, head.truth) << to_hex(bytes.view());
    EXPECT_EQ(back.ext, head.ext) << to_hex(bytes.view());
  }
}

TEST(MsgpackHead, RefusesLengthsThatMsgpackCannotSay) {
  const std::pair<Type, const char*> kTypes[] = {
      {Type::kText, "a string"},
      {Type::kBin, "a bytes object"},
      {Type::kArray, "a list"},
      {Type::kMap, "a dict"},
      {Type::kExt, "an extension object (an array, or a tuple)"}};
  for (const auto& sized : kTypes) {
    const MsgpackHead head{.type = sized.first, .length = std::uint64_t{1} << 32U};
    EXPECT_THAT([&] { encode_msgpack_head(head); },
                FailsWith(Code::kInvalidArgument,
                          std::string(sized.second) + " of length 4294967296 is too large"));
  }
}

}  // namespace
}  // namespace cairn
