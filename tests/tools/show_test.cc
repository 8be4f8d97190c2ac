// What people see: safe text, drawings, shardings, previews.
#include <cairn/base/json/json.h>
#include <cairn/base/utf8.h>
#include <cairn/inspect.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <numeric>

#include "tests/support/matchers.h"
#include "tests/tools/memory_checkpoint.h"

namespace cairn {
namespace {

using testing::make_array;
using testing::MemoryCheckpoint;

TEST(TensorsJson, ComesInWholeLines) {
  MemoryCheckpoint checkpoint;
  const std::vector<std::size_t> both{1, 0};
  EXPECT_EQ(tensors_json(checkpoint, {}), "[]\n");
  checkpoint.add("a", make_array<std::int32_t>(DType::kInt32, {2}, {1, 2}));
  checkpoint.add("b\xff", make_array<std::int32_t>(DType::kInt32, {}, {1}));
  std::vector<std::string> pieces;
  tensors_json(checkpoint, both, [&](std::string_view piece) { pieces.emplace_back(piece); });
  std::string joined;
  for (const std::string& piece : pieces) {
    EXPECT_TRUE(piece.ends_with('\n')) << piece;
    joined += piece;
  }
  EXPECT_EQ(pieces.size(), 4U);
  EXPECT_EQ(joined, tensors_json(checkpoint, both));
  EXPECT_EQ(joined,
            "[\n"
            R"({"name":"b\\xff","path":["b\\xff"],"dtype":"int32","shape":[],"kind":"jax.Array",)"
            R"("nbytes":4,"stored_nbytes":4,"chunk_shape":[],"sharding":null},)"
            "\n"
            R"({"name":"a","path":["a"],"dtype":"int32","shape":[2],"kind":"jax.Array",)"
            R"("nbytes":8,"stored_nbytes":8,"chunk_shape":[2],"sharding":null})"
            "\n]\n");
}

TEST(Printable, KeepsTextAndEscapesWhatDrivesTerminals) {
  EXPECT_EQ(printable_text("params.é.日本"), "params.é.日本");
  EXPECT_EQ(printable_text("a\x1b[31mb\n"), "a\\x1b[31mb\\x0a");
  EXPECT_EQ(printable_text("\xff\xc3"), "\\xff\\xc3");
  EXPECT_EQ(printable_text("\xc2\x9b"), "\\u009b");  // CSI as one character
  // right-to-left override, end of an isolate
  EXPECT_EQ(printable_text("a\u202e\u2069"), "a\\u202e\\u2069");
  EXPECT_EQ(printable_text("\u200b\u2028\u061c\ufeff\u00ad\ufe0f"),
            "\\u200b\\u2028\\u061c\\ufeff\\u00ad\\ufe0f");
  // a tag; a face, which can be seen
  EXPECT_EQ(printable_text("\U000e0041\U0001f600"), "\\U000e0041\U0001f600");
  EXPECT_EQ(printable_text(std::string_view("a\0b\x7f\t", 5)), "a\\x00b\\x7f\\x09");
  EXPECT_EQ(printable_text("\xed\xa0\x80"), "\\xed\\xa0\\x80");  // surrogate
  EXPECT_EQ(printable_text(""), "");
}

TEST(Printable, IsIdempotent) {
  std::string all;
  for (std::uint32_t code = 0; code < 0x110000; code += code < 0x3000 ? 1 : 97)
    if (code < 0xd800 || code >= 0xe000) append_utf8(all, code);
  for (int byte = 0; byte < 256; ++byte) all += static_cast<char>(byte);
  const std::string once = printable_text(all);
  EXPECT_EQ(printable_text(once), once);
}

TEST(Printable, KeepsTheMeaningOfJson) {
  const std::string value = "a\x7f\u202e\u009b\U000e0041\U0001f600\u00e9";
  const std::string text = "{\n  \"" + value + "\": 1\n}\n";
  EXPECT_EQ(printable_json(text),
            "{\n  \"a\\u007f\\u202e\\u009b\\udb40\\udc41\U0001f600\u00e9\": 1\n}\n");
  const Json parsed = parse_json(printable_json(text));
  ASSERT_NE(parsed.find(value), nullptr);
  EXPECT_EQ(printable_json("\"\xff\""), "\"\\\\xff\"");  // JSON cannot hold it
}

// Metadata may claim any sizes.
TEST(Summarize, SumsDoNotWrap) {
  MemoryCheckpoint c;
  for (const char* name : {"a", "b", "c"}) {
    TensorInfo& t = c.add(name, make_array<float>(DType::kFloat32, {1}, {1}));
    t.shape = {INT64_MAX};
    t.nbytes = t.stored_nbytes = UINT64_MAX / 2;
  }
  const Summary sum = summarize(c);
  EXPECT_EQ(sum.elements, UINT64_MAX);
  EXPECT_EQ(sum.nbytes, UINT64_MAX);
  EXPECT_EQ(sum.stored_nbytes, UINT64_MAX);
  const std::vector<std::size_t> all{0, 1, 2};
  EXPECT_EQ(usage(c, all, 1).total.counts.nbytes, UINT64_MAX);
}

TEST(Summarize, CountsWhatThereIs) {
  MemoryCheckpoint c;
  c.add("a", make_array<float>(DType::kFloat32, {2, 3}, {}));
  c.add("b", make_array<float>(DType::kFloat32, {5}, {}));
  c.add("n", make_array<std::int64_t>(DType::kInt64, {}, {}), "scalar");
  c.add_string("s", "text");
  c.add_node("e", "Dict");
  c.add_node("p", "placeholder");
  TensorInfo& lost = c.add_node("x", "jax.Array");
  lost.kind = LeafKind::kUnknown;
  lost.error = "gone";
  c.add_string("t", "").error = "gone";
  const Summary sum = summarize(c);
  EXPECT_EQ(sum.leaves, 8U);
  EXPECT_EQ(sum.arrays, 4U);
  EXPECT_EQ(sum.strings, 2U);
  EXPECT_EQ(sum.empty, 2U);
  EXPECT_EQ(sum.unreadable, 2U);
  EXPECT_EQ(sum.elements, 12U);
  EXPECT_EQ(sum.nbytes, 24U + 20 + 8 + 4);
  EXPECT_EQ(sum.stored_nbytes, 24U + 20 + 8);
  EXPECT_EQ(sum.dtypes,
            (std::vector<std::pair<std::string, std::uint64_t>>{{"float32", 2}, {"int64", 1}}));
}

TEST(ShardingText, NamesAxesAndDevices) {
  EXPECT_EQ(sharding_text(""), "");
  EXPECT_EQ(sharding_text(R"({"sharding_type": "SingleDeviceSharding", "device_str": "cpu:0"})"),
            "SingleDeviceSharding(cpu:0)");
  EXPECT_EQ(
      sharding_text(
          R"({"sharding_type": "NamedSharding", "shape": [2, 4, 1], "axis_names": ["x", "y", "\u001b"],
                              "partition_spec": [["x", "y"], null, "\u001b"]})"),
      R"(NamedSharding(x=2,y=4,\x1b=1; P(('x', 'y'), None, '\x1b')))");
  EXPECT_EQ(sharding_text("not\njson"), "not\\x0ajson");
  EXPECT_EQ(sharding_text(R"({"sharding_type": "Other"})"), R"({"sharding_type": "Other"})");
}

TEST(DrawTree, ShowsEveryNodeOnce) {
  MemoryCheckpoint checkpoint;
  checkpoint.add("a.0.w", make_array<float>(DType::kFloat32, {2, 3}, {}));
  checkpoint.add("a.1.w", make_array<float>(DType::kFloat32, {3}, {}));
  checkpoint.add("lr", make_array<double>(DType::kFloat64, {}, {0.5}), "scalar");
  checkpoint.add_string("name", "x");
  checkpoint.add_node("none", "None");
  EXPECT_EQ(render_tree(checkpoint),
            "/memory\n"
            "├── a\n"
            "│   ├── [0]\n"
            "│   │   └── w  float32 (2, 3)\n"
            "│   └── [1]\n"
            "│       └── w  float32 (3,)\n"
            "├── lr  float64 () scalar\n"
            "├── name  string\n"
            "└── none  None\n");
  EXPECT_NE(render_tree(checkpoint, Paint::kAnsi).find("\x1b["), std::string::npos);
}

TEST(DrawTree, ShowsWhoHoldsWhat) {
  MemoryCheckpoint checkpoint;
  const std::string mesh =
      R"({"sharding_type": "NamedSharding", "shape": [2, 4], "axis_names": ["x", "y"], "partition_spec": )";
  checkpoint.add("a.w", make_array<float>(DType::kFloat32, {4, 3}, {})).sharding =
      mesh + R"(["x"]})";
  checkpoint.add("a.v", make_array<float>(DType::kFloat32, {8}, {})).sharding = mesh + R"(["y"]})";
  checkpoint.add("b", make_array<float>(DType::kFloat32, {}, {})).sharding =
      R"({"sharding_type": "SingleDeviceSharding", "device_str": "cpu:3"})";
  checkpoint.add("c", make_array<float>(DType::kFloat32, {3}, {})).sharding = mesh + R"(["x"]})";
  checkpoint.add("d", make_array<float>(DType::kFloat32, {3}, {})).sharding = "\x1b";
  checkpoint.add("e", make_array<float>(DType::kFloat32, {3}, {}));
  EXPECT_EQ(render_tree(checkpoint, Paint::kPlain, TreeNotes::kShardings),
            "/memory\n"
            "├── a\n"
            "│   ├── w  float32 (4, 3)\n"
            "│   │     NamedSharding(x=2,y=4; P('x'))\n"
            "│   │     [0:2, 0:3]  devices 0-3\n"
            "│   │     [2:4, 0:3]  devices 4-7\n"
            "│   └── v  float32 (8,)\n"
            "│         NamedSharding(x=2,y=4; P('y'))\n"
            "│         [0:2]  devices 0, 4\n"
            "│         [2:4]  devices 1, 5\n"
            "│         [4:6]  devices 2, 6\n"
            "│         [6:8]  devices 3, 7\n"
            "├── b  float32 ()\n"
            "│     SingleDeviceSharding(cpu:3)\n"
            "│     []  device 3\n"
            "├── c  float32 (3,)\n"
            "│     NamedSharding(x=2,y=4; P('x'))\n"
            "│     places nothing: dimension 0 of (3,) has 3 elements, which mesh axes 'x' cannot "
            "split into 2 equal parts\n"
            "├── d  float32 (3,)\n"
            "│     \\x1b\n"
            "│     places nothing: sharding: invalid JSON: not a value at byte 0\n"
            "└── e  float32 (3,)\n");
}

TEST(DrawTree, ShowsTheFirstOfManyParts) {
  MemoryCheckpoint checkpoint;
  const auto sharded = [](int devices, const char* spec) {
    return R"({"sharding_type": "NamedSharding", "axis_names": ["x", "y"], "shape": [)" +
           std::to_string(devices) + R"(, 2], "partition_spec": )" + spec + "}";
  };
  checkpoint.add("many", make_array<float>(DType::kFloat32, {32}, {})).sharding =
      sharded(32, R"(["x"])");
  checkpoint.add("apart", make_array<float>(DType::kFloat32, {2}, {})).sharding =
      sharded(32, R"(["y"])");
  const std::string text = render_tree(checkpoint, Paint::kPlain, TreeNotes::kShardings);
  EXPECT_NE(text.find("[15:16]  devices 30, 31\n│     ... 16 more parts\n"), std::string::npos)
      << text;
  EXPECT_NE(text.find("[0:1]  devices 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30, "
                      "... 16 more\n"),
            std::string::npos)
      << text;
}

TEST(DrawTree, KeepsItemsApartAndSurvivesOddPaths) {
  MemoryCheckpoint checkpoint;
  checkpoint.add_node("x", "None").item = "a";
  checkpoint.add_node("x", "None").item = "b";
  checkpoint.add_node("", "None");
  checkpoint.add_node("", "Dict");
  std::string deep;
  for (int i = 0; i < 5000; ++i) deep += "k.";
  checkpoint.add_node(deep + "end", "None");
  const std::string text = render_tree(checkpoint);
  EXPECT_NE(text.find("├── a\n│   └── x  None\n├── b\n│   └── x  None\n"), std::string::npos)
      << text.substr(0, 400);
  EXPECT_NE(text.find("(again)  Dict"), std::string::npos);
  EXPECT_LT(text.size(), 100'000U);
}

std::string show(const Array& array, std::size_t max_items = 1000) {
  return preview_array(array.view(), max_items);
}

TEST(Preview, PrintsEveryKindOfElementAsNumpyDoes) {
  EXPECT_EQ(show(make_array<float>(DType::kFloat32, {}, {0.1F})), "0.1");
  EXPECT_EQ(show(make_array<std::int32_t>(DType::kInt32, {2, 3}, {1, -20, 3, 4, 5, 600})),
            "[[  1 -20   3]\n [  4   5 600]]");
  EXPECT_EQ(show(make_array<float>(DType::kFloat32, {4}, {1, 2.5F, -0.125F, 1.0F / 3})),
            "[ 1.          2.5        -0.125       0.33333334]");
  EXPECT_EQ(show(make_array<double>(DType::kFloat64, {3}, {1e-10, 1, -2.5e20})),
            "[ 1.0e-10  1.0e+00 -2.5e+20]");
  const float inf = std::numeric_limits<float>::infinity();
  EXPECT_EQ(show(make_array<float>(DType::kFloat32, {4}, {1.5F, NAN, inf, -inf})),
            "[ 1.5  nan  inf -inf]");
  EXPECT_EQ(show(make_array<std::uint8_t>(DType::kBool, {3}, {1, 0, 1})), "[ True False  True]");
  EXPECT_EQ(show(make_array<std::uint64_t>(DType::kUint64, {2}, {0, ~std::uint64_t{0}})),
            "[                   0 18446744073709551615]");
  EXPECT_EQ(show(make_array<float>(DType::kComplex64, {2}, {1, 2, -0.5F, -3})),
            "[ 1. +2.j -0.5-3.j]");
  EXPECT_EQ(show(make_array<std::int8_t>(DType::kInt4, {2}, {7, -8})), "[ 7 -8]");
  EXPECT_EQ(show(make_array<float>(DType::kFloat32, {0}, {})), "[]");
  EXPECT_EQ(show(make_array<float>(DType::kFloat32, {3, 0}, {})), "[]");
}

TEST(Preview, ShowsTheFewestDigitsThatNameASmallFloat) {
  // 0x3eaa is 0.33203125, its neighbours 0.330078125 and 0.333984375: three digits are enough.
  EXPECT_EQ(show(make_array<std::uint16_t>(DType::kBfloat16, {2}, {0x3f80, 0x3eaa})),
            "[1.    0.332]");
  EXPECT_EQ(show(make_array<std::uint16_t>(DType::kFloat16, {1}, {0x3555})), "[0.3333]");
  EXPECT_EQ(show(make_array<std::uint8_t>(DType::kFloat8E4m3fn, {2}, {0x38, 0x7e})), "[  1. 448.]");
}

TEST(Preview, WrapsLongRowsAndSummarisesLongArrays) {
  std::vector<std::int32_t> values(2000);
  std::iota(values.begin(), values.end(), 0);
  EXPECT_EQ(show(make_array(DType::kInt32, {2000}, values)), "[   0    1    2 ... 1997 1998 1999]");
  EXPECT_EQ(show(make_array(DType::kInt32, {40, 50}, values)),
            "[[   0    1    2 ...   47   48   49]\n"
            " [  50   51   52 ...   97   98   99]\n"
            " [ 100  101  102 ...  147  148  149]\n"
            " ...\n"
            " [1850 1851 1852 ... 1897 1898 1899]\n"
            " [1900 1901 1902 ... 1947 1948 1949]\n"
            " [1950 1951 1952 ... 1997 1998 1999]]");
  EXPECT_EQ(show(make_array(DType::kInt32, {2, 500, 2}, values)).substr(0, 76),
            "[[[   0    1]\n  [   2    3]\n  [   4    5]\n  ...\n  [ 994  995]\n  [ 996  997]\n");
  values.resize(30);
  EXPECT_EQ(show(make_array(DType::kInt32, {30}, values)),
            "[ 0  1  2  3  4  5  6  7  8  9 10 11 12 13 14 15 16 17 18 19 20 21 22 23\n"
            " 24 25 26 27 28 29]");
}

TEST(Preview, ReadsOnlyTheCornersOfAStoredTensor) {
  MemoryCheckpoint checkpoint;
  std::vector<std::int32_t> values(300 * 400);
  std::iota(values.begin(), values.end(), 0);
  const Array array = make_array(DType::kInt32, {300, 400}, values);
  checkpoint.add("a", array);
  EXPECT_EQ(preview_tensor(checkpoint, 0, parse_slice("", array.shape())),
            preview_array(array.view()));
  EXPECT_EQ(checkpoint.elements_read, 36U);
  EXPECT_EQ(preview_tensor(checkpoint, 0, parse_slice("299,-2:", array.shape())),
            "[119998 119999]");
  EXPECT_EQ(preview_tensor(checkpoint, 0, parse_slice("1,2", array.shape())), "402");
}

TEST(Preview, ManyDimensionsStaySmall) {
  const Array many = Array::allocate(DType::kInt8, Shape(8, 7));
  EXPECT_LT(show(many).size(), 20'000U);
  // 2^20 elements: no corner is smaller
  const Array array = Array::allocate(DType::kInt8, Shape(20, 2));
  EXPECT_EQ(show(array), "[...]");
}

}  // namespace
}  // namespace cairn
