// msgpack_test.cc -- the leaves of what flax and Orbax wrote, and bytes that nobody should have
// written.
#include <cairn/base/json/json.h>
#include <cairn/io/file.h>
#include <cairn/msgpack.h>
#include <cairn/tree/msgpack/msgpack.h>

#include <cstring>
#include <functional>
#include <string>

#include "tests/support/damage.h"
#include "tests/support/hex.h"
#include "tests/support/matchers.h"

namespace cairn {
namespace {

using testing::FailsWith;
using testing::to_hex;

const std::string kGolden = std::string(CAIRN_GOLDEN_DIR) + "/msgpack/flax-0.12.8_orbax-0.12.8/";

Bytes value_of(const MsgpackLeaf& leaf) {
  Bytes bytes;
  if (leaf.kind == MsgpackKind::kScalar || leaf.kind == MsgpackKind::kComplex)
    bytes.assign(leaf.value.begin(),
                 leaf.value.begin() + static_cast<std::ptrdiff_t>(leaf.element_size));
  for (const ByteView piece : leaf.pieces) bytes.insert(bytes.end(), piece.begin(), piece.end());
  return bytes;
}

// A leaf as the golden script describes one.
Json describe(const MsgpackLeaf& leaf) {
  Json path{JsonArray{}};
  for (const Key& key : leaf.path)
    path.push_back(JsonArray{Json(key.text), Json(static_cast<int>(key.type))});
  Json json{JsonObject{{"path", path}, {"kind", Json(kind_name(leaf.kind))}}};
  if (leaf.kind == MsgpackKind::kString) {
    json.set("value", Json(as_text(leaf.pieces[0])));
  } else if (!leaf.dtype_name.empty()) {
    Json shape{JsonArray{}};
    for (const auto n : leaf.shape) shape.push_back(n);
    json.set("dtype", Json(leaf.dtype_name));
    json.set("shape", shape);
    json.set("value", Json(to_hex(value_of(leaf))));
  }
  return json;
}

TEST(Msgpack, FindsTheLeavesThatThePackagesWrote) {
  const Json files = parse_json(as_text(read_file(kGolden + "leaves.json")));
  ASSERT_GE(files.as_object()->size(), 30U);
  for (const auto& [name, expected] : *files.as_object()) {
    const Bytes file = read_file(kGolden + name + ".msgpack");
    Json leaves{JsonArray{}};
    for (const MsgpackLeaf& leaf : decode_msgpack(file)) leaves.push_back(describe(leaf));
    EXPECT_EQ(leaves, expected) << name << "\nours:   " << to_text(leaves).substr(0, 2000)
                                << "\ntheirs: " << to_text(expected).substr(0, 2000);
  }
}

TEST(Msgpack, JoinsChunksOfArraysInMaps) {
  const Bytes file = read_file(kGolden + "flax_chunked.msgpack");
  std::size_t joined = 0;
  for (const MsgpackLeaf& leaf : decode_msgpack(file)) joined += leaf.pieces.size() > 1 ? 1 : 0;
  EXPECT_EQ(joined, 2U);  // "a" and "b.c"; the array in a list was written whole
}

TEST(Msgpack, MakesATreeWhoseArraysShareTheBytesWhereTheyLieWell) {
  const auto file = std::make_shared<const Bytes>(read_file(kGolden + "dtypes.msgpack"));
  const Tree tree = msgpack_restore(*file, file);
  std::size_t arrays = 0;
  for (const MsgpackLeaf& leaf : decode_msgpack(*file)) {
    const Tree* node = tree.find(leaf.path[0].text);
    ASSERT_NE(node, nullptr);
    ASSERT_NE(node->array(), nullptr) << leaf.path[0].text;
    const Array& array = *node->array();
    EXPECT_EQ(array.dtype(), leaf.dtype);
    EXPECT_EQ(array.shape(), leaf.shape);
    EXPECT_EQ(Bytes(array.bytes().begin(), array.bytes().end()), value_of(leaf));
    const bool shared =
        array.bytes().data() >= file->data() && array.bytes().data() < file->data() + file->size();
    if (leaf.element_size == 1) {
      EXPECT_TRUE(shared) << leaf.dtype_name;
    }
    ++arrays;
  }
  EXPECT_EQ(arrays, 28U);
  const Tree big = msgpack_restore(read_file(kGolden + "flax_chunked_root.msgpack"), nullptr);
  ASSERT_NE(big.array(), nullptr);
  EXPECT_EQ(big.array()->shape(), (Shape{4, 25}));
  float last = 0;
  std::memcpy(&last, big.array()->bytes().data() + 99 * sizeof last, sizeof last);
  EXPECT_EQ(last, 99.0F);
}

TEST(Msgpack, KeepsPythonsScalars) {
  const std::string text(
      "\x85\xa1"
      "a\xc3\xa1"
      "b\xff\xa1"
      "c\xcf\xff\xff\xff\xff\xff\xff\xff\xff\xa1"
      "d\xcb\x3f\xf8\0\0\0\0\0\0\xa1"
      "e\xa2hi",
      34);
  const Tree tree = msgpack_restore(as_bytes(text), nullptr);
  EXPECT_EQ(std::get<bool>(tree.find("a")->value()), true);
  EXPECT_EQ(std::get<std::int64_t>(tree.find("b")->value()), -1);
  EXPECT_EQ(std::get<std::uint64_t>(tree.find("c")->value()), UINT64_MAX);
  EXPECT_EQ(std::get<double>(tree.find("d")->value()), 1.5);
  EXPECT_EQ(std::get<std::string>(tree.find("e")->value()), "hi");
}

TEST(Msgpack, SurvivesEveryTruncationAndFlippedBit) {
  for (const std::string name :
       {"flax_int_keys", "orbax_03", "flax_chunked_root", "datetimes", "orbax_06"}) {
    const Bytes file = read_file(kGolden + name + ".msgpack");
    const auto decode = [&](ByteView bytes) {
      for (const MsgpackLeaf& leaf : decode_msgpack(bytes))
        for (const ByteView piece : leaf.pieces)
          if (!piece.empty()) {
            EXPECT_GE(piece.data(), bytes.data());
            EXPECT_LE(piece.data() + piece.size(), bytes.data() + bytes.size());
          }
    };
    testing::for_each_truncation(file, [&](ByteView bad, const std::string& what) {
      EXPECT_THROW(decode(bad), Error) << name << " " << what;
    });
    testing::for_each_bit_flip(file, [&](ByteView bad, const std::string&) {
      try {
        decode(bad);
      } catch (const Error&) {  // or another value: nothing covers the bytes
      }
    });
  }
}

std::string repeated(std::string_view text, std::size_t n) {
  std::string out;
  for (std::size_t i = 0; i < n; ++i) out += text;
  return out;
}

// An ndarray: shape, dtype and bytes as msgpack.
std::string ndarray(const std::string& content, char code = 1) {
  return std::string("\xc7") + static_cast<char>(content.size()) + code + content;
}

TEST(Msgpack, RefusesWhatNobodyShouldHaveWritten) {
  using namespace std::string_literals;
  const std::string f4 =
      "\xa7"
      "float32";
  const struct {
    const char* name;
    std::string bytes;
    const char* expect;
    Code code = Code::kDataLoss;
  } kBad[] = {
      {"nothing", "", "unexpected end"},
      {"two objects", "\xc0\xc0", "left over"},
      {"the unused byte", "\xc1", "0xc1 does not start a msgpack object"},
      {"a text beyond the end", "\xdb\xff\xff\xff\xffx", "unexpected end"},
      {"a bin beyond the end", "\xc6\xff\xff\xff\xffx", "unexpected end"},
      {"an extension beyond the end", "\xc9\xff\xff\xff\xff\x01x", "unexpected end"},
      {"an array of 2^32 - 1", "\xdd\xff\xff\xff\xff\xc0", "an array of 4294967295 elements"},
      {"a map of 2^32 - 1", "\xdf\xff\xff\xff\xff\xc0", "a map of 4294967295 pairs"},
      {"deep arrays", repeated("\x91", 100'000), "nested deeper"},
      {"deep maps",
       repeated("\x81\xa1"
                "a",
                100'000),
       "nested deeper"},
      {"many leaves below a long path",
       repeated("\x91", 250) + "\xdd"s + "\0\x10\0\0"s + repeated("\xc0", 1U << 20U),
       "bytes of memory, the limit of Cairn", Code::kUnimplemented},
      {"a text that is not UTF-8", "\xa1\xff", "not UTF-8"},
      {"a key that is not UTF-8", "\x81\xa1\xff\xc0", "a key is not UTF-8"},
      {"a key that is nil", "\x81\xc0\xc0", "is not a string or an integer"},
      {"a key twice",
       "\x82\xa1"
       "a\xc0\xa1"
       "a\xc0",
       "\"a\" appears twice"},
      {"an integer and its text as keys",
       "\x82\x01\xc0\xa1"
       "1\xc0",
       "\"1\" appears twice"},
      {"extension 5", "\xd4\x05x", "extension type 5", Code::kUnimplemented},
      {"a timestamp of three bytes", "\xc7\x03\xff\x01\x02\x03", "a timestamp has 3 bytes"},
      {"a timestamp without bytes", "\xc7\x00\xff"s, "a timestamp has 0 bytes"},
      {"a timestamp of too many nanoseconds", "\xd7\xff\xff\xff\xff\xfc\x00\x00\x00\x07"s,
       "has 1073741823 nanoseconds"},
      {"a long timestamp of too many nanoseconds",
       "\xc7\x0c\xff\x3b\x9a\xca\x00\0\0\0\0\0\0\0\x01"s, "has 1000000000 nanoseconds"},
      {"ndarray that is no array", "\xd4\x01\xc0", "not a msgpack array of 3"},
      {"ndarray of two", ndarray("\x92\x90" + f4), "not a msgpack array of 3"},
      {"ndarray with bytes behind",
       ndarray("\x93\x90" + f4 +
               "\xc4\x04"
               "abcdx"),
       "left over"},
      {"shape that is a number",
       ndarray("\x93\x01" + f4 +
               "\xc4\x04"
               "abcd"),
       "shape of an ndarray"},
      {"negative extent",
       ndarray("\x93\x91\xff" + f4 +
               "\xc4\x04"
               "abcd"),
       "extent of a shape"},
      {"dtype that is a number",
       ndarray("\x93\x90\x01\xc4\x04"
               "abcd"),
       "dtype of an ndarray"},
      {"values that are a number", ndarray("\x93\x90" + f4 + "\x01"), "values of an ndarray"},
      {"too few values",
       ndarray("\x93\x91\x02" + f4 +
               "\xc4\x04"
               "abcd"),
       "4 bytes do not hold an array of shape (2,)"},
      {"part of a value",
       ndarray("\x93\x90" + f4 +
               "\xc4\x03"
               "abc"),
       "3 bytes do not hold an array of shape ()"},
      {"values for nobody",
       ndarray("\x93\x91\x00"s + f4 +
               "\xc4\x04"
               "abcd"),
       "4 bytes do not hold an array of shape (0,)"},
      {"a shape that wraps to 1",
       ndarray("\x93\x92\xcf\x80\0\0\0\0\0\0\x01\x02"s + f4 +
               "\xc4\x04"
               "abcd"),
       "extent of a shape"},
      {"a shape that overflows", ndarray("\x93\x92\xcf\x40\0\0\0\0\0\0\0\x04"s + f4 + "\xc4\x00"s),
       "overflows"},
      {"unknown dtype, odd bytes",
       ndarray("\x93\x91\x02\xa1"
               "x\xc4\x03"
               "abc"),
       "3 bytes do not hold 2 elements of type x"},
      {"half of a type that only NumPy has",
       ndarray("\x93\x90\xaa"
               "complex256\xc4\x10" +
                   std::string(16, 'a'),
               3),
       "16 bytes do not hold an array of shape () of complex256"},
      {"a time and a half",
       ndarray("\x93\x91\x01\xad"
               "datetime64[s]\xc4\x0c" +
               std::string(12, 'a')),
       "12 bytes do not hold an array of shape (1,) of datetime64[s]"},
      {"NumPy scalar with a shape",
       ndarray("\x93\x91\x01" + f4 +
                   "\xc4\x04"
                   "abcd",
               3),
       "has a shape"},
      {"complex of three", "\xc7\x04\x02\x93\x01\x02\x03", "not a msgpack array of 2"},
      {"complex of texts",
       "\xc7\x05\x02\x92\xa1"
       "a\xa1"
       "b",
       "not a number"},
      {"tuple that is no array", "\xd4\x04\xc0", "a tuple is not"},
      {"chunked without chunks",
       "\x82\xb9__msgpack_chunked_array__\xc3\xa5shape\x81\xa1"
       "0\x01",
       "without chunks"},
      {"chunked without a shape", "\x82\xb9__msgpack_chunked_array__\xc3\xa1x\x01",
       "without a shape"},
      {"chunked, part missing",
       "\x82\xb9__msgpack_chunked_array__\xc3\xa5shape\x81\xa1"
       "1\x01",
       "part 0 of a chunked array is missing"},
      {"chunked, part a number",
       "\x83\xb9__msgpack_chunked_array__\xc3\xa5shape\x80\xa6"
       "chunks\x81\xa1"
       "0\x01",
       "chunk 0 is not a flat ndarray"},
  };
  for (const auto& bad : kBad)
    EXPECT_THAT([&] { decode_msgpack(as_bytes(bad.bytes)); }, FailsWith(bad.code, bad.expect))
        << bad.name;
}

// A limit of Cairn's own is not damage. Orbax and flax open such a file.
TEST(Msgpack, NodesBeyondTheLimitAreNotDamage) {
  using namespace std::string_literals;
  const std::string text = "\xdd\0\x0f\0\0"s + repeated("\xc0", 0xf0000);
  EXPECT_EQ(parse_msgpack(as_bytes(text)).list()->size(), 0xf0000U);
  EXPECT_THAT([&] { parse_msgpack(as_bytes(text), {.stored = 0}); },
              FailsWith(Code::kUnimplemented, "more than 67108864 bytes of memory, the limit"));
}

TEST(Msgpack, LeavesArePassedOneByOne) {
  using namespace std::string_literals;
  const std::string text = "\x82\xa1"s + "a\x92\x01\x02\xa1" + "b\xc0";
  std::vector<std::string> names;
  list_msgpack_leaves(parse_msgpack(as_bytes(text)), text.size(),
                      [&](MsgpackLeaf leaf) { names.push_back(param_name(leaf.path)); });
  EXPECT_EQ(names, (std::vector<std::string>{"a.0", "a.1", "b"}));
}

TEST(Msgpack, SaysWhichLeafIsWrong) {
  const std::string text =
      "\x81\xa1"
      "a\x92\xc0\x81\xa1"
      "b\xc1";
  EXPECT_THAT([&] { decode_msgpack(as_bytes(text)); }, FailsWith(Code::kDataLoss, "a.1.b: "));
}

}  // namespace
}  // namespace cairn
