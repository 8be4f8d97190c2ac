// state_walk_test.cc -- what stands beside the contents of an object, keys and texts that are not
// shown as they are, and values that are shared so that looking at them is costly.
#include <cairn/formats/pytorch/pickle/pickle.h>
#include <cairn/formats/pytorch/tensors/state_walk.h>
#include <gmock/gmock.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/support/matchers.h"

namespace cairn::pytorch {
namespace {

using namespace std::string_literals;
using ::testing::ElementsAre;
using testing::FailsWith;
using ::testing::HasSubstr;

State walk(std::string_view text) {
  const ByteView bytes = as_bytes(text);
  const pickle::Pickle pickle = pickle::parse_pickle(Bytes(bytes.begin(), bytes.end()));
  std::uint64_t memory = walk_memory(pickle);
  return walk_state(pickle, pickle.root(), memory);
}

std::string number(std::uint64_t n, std::size_t bytes) {
  std::string text;
  for (std::size_t i = 0; i < bytes; ++i) text += static_cast<char>(n >> (8 * i));
  return text;
}
std::string text(std::string_view value) { return ("X" + number(value.size(), 4)).append(value); }
std::string integer(std::uint64_t n) { return "\x8a\x08" + number(n, 8); }
// A dict with one entry, whose value is pickled.
std::string dict(std::string_view key, std::string_view value) {
  return ("}" + text(key)).append(value) + "s";
}
// BUILD with the attribute "a".
std::string attribute() { return dict("a", "K\x05") + "b"; }
std::string integers(const std::vector<std::uint64_t>& values) {
  std::string out = "(";
  for (const std::uint64_t value : values) out += integer(value);
  return out + "t";
}
std::string tensor(const std::vector<std::uint64_t>& shape, const std::string& key = text("0")) {
  return "ctorch._utils\n_rebuild_tensor_v2\n((" + text("storage") + "ctorch\nFloatStorage\n" +
         key + text("cpu") + integer(1) + "tQK\0"s + integers(shape) + integers(shape) + "\x89NtR";
}

// The names of the leaves; with "?" behind those that cannot be read.
std::string leaves_of(const State& state) {
  std::string names;
  for (const StateLeaf& leaf : state.leaves) {
    names += (names.empty() ? "" : " ") + leaf.leaf.info.name;
    if (!leaf.leaf.unreadable.empty() || !leaf.leaf.info.error.empty()) names += "?";
  }
  return names;
}

TEST(StateWalk, ShowsWhatStandsBesideContents) {
  const std::string list =
                        "cm\nL\n)\x81(K\x01K\x02"
                        "e",
                    entry = text("k") + "K\x01s";
  const std::string ordered = "ccollections\nOrderedDict\n)R" + entry;
  const std::string rebuild = "ccopy_reg\n_reconstructor\n(cm\nC\nc__builtin__\n";
  const std::vector<std::pair<std::string, std::string>> rows = {
      {list + attribute(), "w.0 w.1 w.__dict__.a"},
      {"cm\nD\n)\x81" + entry + attribute(), "w.k w.__dict__.a"},
      {ordered + attribute(), "w.k w.__dict__.a"},
      // of each state_dict()
      {ordered + dict("_metadata", "K\x01") + "b", "w.k"},
      {"cm\nS\n]K\x01"
       "a\x85R" +
           attribute(),
       "w.a w.__args__.0.0"},
      {"cm\nI\nK\x07\x85\x81" + attribute(), "w.a w.__args__.0"},
      {"cm\nI\n)" + dict("n", "K\x07") + "\x92" + attribute(), "w.a w.__kwargs__.n"},
      {rebuild +
           "list\n]K\x01"
           "atR" +
           attribute(),
       "w.0 w.__dict__.a"},
      {rebuild + "int\nK\x07tR" + attribute(), "w w.__dict__.a"},
      {rebuild + "object\nNtR" + attribute(), "w.a"},
      {rebuild + "object\nNtR", "w"},
      // the later value of two
      {"cm\nC\n)\x81" + attribute() + dict("b", "K\x01") + "b" + attribute(), "w.a w.b"},
      {"cm\nC\n)\x81" + dict("a", "K\x01") + dict("s", "K\x01") +
           "\x86"
           "b",
       "w.a w.s"},
      {list + "K\x01"
              "b",
       "w.0 w.1 w.__state__"},
      {list + "K\x01"
              "bK\x02"
              "b",
       "w.0 w.1 w.__state__ w.__state2__"},
      {"cm\nC\n)\x81K\x01"
       "b" +
           attribute(),
       "w?"},
      {list + entry, "w?"},
      {"cm\nC\n)\x81", "w"},
      {"cm\nC\nK\x01\x85\x81", "w?"},
      {"ccollections\ndeque\n)K\x05\x86RK\x01"
       "a",
       "w.0 w.__args__.0 w.__args__.1"},
      {tensor({1}) + attribute(), "w w.__dict__.a"},
      {"ctorch._tensor\n_rebuild_from_type_v2\n(ctorch._utils\n_rebuild_tensor_v2\n"
       "ctorch\nTensor\n((" +
           text("storage") + "ctorch\nFloatStorage\n" + text("0") + text("cpu") +
           "K\x01tQK\x00K\x01\x85K\x01\x85\x89Nt"s + dict("a", "K\x01") + "tR",
       "w w.__dict__.a"},
      {"ctorch._utils\n_rebuild_parameter_with_state\n(" + tensor({1}) + "\x88N" +
           dict("a", "K\x01") + "tR",
       "w w.__dict__.a"},
      {"ctorch._tensor\n_rebuild_from_type_v2\n(ctorch._utils\n_rebuild_wrapper_subclass\n"
       "cm\nC\n(cm\nC\nctorch\nfloat32\nK\x02\x85t" +
           dict("inner", "K\x01") + "tR",
       "w.inner w.__dtype__ w.__size__.0"},
      // a torch.nn.Buffer
      {"ctorch._utils\n_rebuild_parameter_with_state\n(" + tensor({1}) + "\x88N}(" +
           text("_is_buffer") + "\x88" + text("persistent") + "\x88utR",
       "w"},
  };
  for (const auto& [value, names] : rows)
    EXPECT_EQ(leaves_of(walk(dict("w", value) + ".")), names) << value;
  // In a list and at the root.
  EXPECT_EQ(leaves_of(walk("]" + list + attribute() + "a.")), "0.value.0 0.value.1 0.__dict__.a");
  EXPECT_EQ(leaves_of(walk(tensor({1}) + attribute() + ".")), "value __dict__.a");
  EXPECT_EQ(leaves_of(walk("cm\nD\n)\x81" + entry + attribute() + ".")), "k __dict__.a");
}

TEST(StateWalk, KeepsAttributesApartFromKeys) {
  State state = walk("}(" + text("w") + tensor({1}) + attribute() + text("w.__dict__") + "K\x01u.");
  EXPECT_EQ(leaves_of(state), "w w.__dict__ (of the object).a w.__dict__");
  EXPECT_THAT(state.renamed, ElementsAre("w.__dict__ (of the object)"));
  // A str among keys that are int.
  state = walk("}K\x07" + tensor({1}) + attribute() + "s.");
  EXPECT_EQ(leaves_of(state), "7 7.__dict__.a");
  ASSERT_EQ(state.key_types.size(), 1U);
  EXPECT_EQ(state.key_types[0],
            (DictKeyTypes{.dict = {}, .types = {{"7", "int"}, {"7.__dict__", "str"}}}));
}

TEST(StateWalk, EndsAtAnAttributeThatHoldsItsObject) {
  EXPECT_EQ(leaves_of(walk("}" + text("w") + tensor({1}) + "q\0"s + dict("me", "h\0"s) + "bs.")),
            "w w.__dict__.me?");
  EXPECT_EQ(leaves_of(walk("]" + tensor({1}) + "q\0"s + dict("me", "h\0"s) + "ba.")),
            "0.value 0.__dict__.me?");
}

TEST(StateWalk, SaysWhatIsShownUnderAnotherText) {
  State state = walk("}(K\x01K\x05" + text("1") + "K\x06" + text("a") + "K\x01u.");
  EXPECT_EQ(leaves_of(state), "1 1 (str) a");
  EXPECT_THAT(state.renamed, ElementsAre("1 (str)"));
  EXPECT_THAT(state.escaped, ElementsAre());
  state = walk("}(" + text("k\xed\xb2\x80") + "K\x05" + text("v") + text("\xed\xa0\x80") + "u.");
  EXPECT_EQ(leaves_of(state), "k\\udc80 v");
  EXPECT_THAT(state.escaped, ElementsAre("k\\udc80", "v"));
  const ByteView value = state.leaves[1].leaf.array.own;
  EXPECT_EQ(as_text(value), "\\ud800");
}

// Names of many keys of one text are found in linear time.
TEST(StateWalk, NumbersManyKeysOfOneText) {
  std::string keys = "}(";
  for (int i = 0; i < 20'000; ++i) keys += "K\x01\x85\x85N";  // ((1,),) is shown as ((...),)
  const State state = walk(keys + "u.");
  EXPECT_EQ(state.leaves.size(), 20'000U);
  EXPECT_EQ(state.leaves.back().leaf.info.name, "((...),) (tuple 19999)");
}

TEST(StateWalk, ReadsIntegersOf64BitsInEachForm) {
  const auto first = [](const std::string& value) {
    return walk(value + ".").leaves[0].leaf.info.dtype_name;
  };
  EXPECT_EQ(first("L9223372036854775808L\n"), "uint64");
  EXPECT_EQ(first("I18446744073709551615\n"), "uint64");
  EXPECT_EQ(first("\x8a\x09\xff\xff\xff\xff\xff\xff\xff\xff\x00"s), "uint64");
  EXPECT_EQ(leaves_of(walk("}"
                           "L18446744073709551616L\n" +
                           text("x") + "s.")),
            "18446744073709551616");
  EXPECT_THAT(walk("L18446744073709551616L\n.").leaves[0].leaf.unreadable,
              HasSubstr("an integer of more than 64 bits"));
}

TEST(StateWalk, ChargesForWhatIsSharedHoweverDeep) {
  const auto module = [](const std::string& parameters, const std::string& more = "") {
    return "cm\nM\n)\x81}(" + text("_parameters") + parameters + text("_modules") + "}" + more +
           "ub";
  };
  const auto many = [](const std::string& shared, const std::string& one) {
    std::string text = "(" + shared + "q\0"s + "0";
    for (int i = 0; i < 20'000; ++i) text += one;
    return text + "l.";
  };
  std::string entries = "ccollections\nOrderedDict\n)R(", names = "c__builtin__\nset\n](";
  for (std::uint64_t i = 0; i < 20'000; ++i) {
    entries += integer(i) + "N";
    names += text(std::to_string(i));
  }
  const std::vector<std::string> rows = {
      many(entries + "u", module("h\0"s)),
      many(names + "e\x85R", module("}", text("_non_persistent_buffers_set") + "h\0"s)),
      many(
          "cm\nM\n)\x81" +
              [] {
                std::string states;
                for (int i = 0; i < 20'000; ++i) states += "}b";
                return states;
              }(),
          "h\0"s),
  };
  for (const std::string& row : rows)
    EXPECT_THAT([&] { walk(row); }, FailsWith(Code::kDataLoss, "values are shared"));
  // A long name of a class, in each of its objects.
  const std::string name = "c" + std::string(4000, 'm') + "\n" + std::string(4000, 'n') + "\n";
  EXPECT_THAT([&] { walk(many(name, "h\0K\x01\x85R"s)); },
              FailsWith(Code::kDataLoss, "more memory"));
  // The key of a storage.
  const State state = walk(many(text(std::string(1 << 20, 'k')), tensor({1}, "h\0"s)));
  EXPECT_THAT(state.leaves[0].leaf.info.error, HasSubstr("a name has 1048576 bytes"));
}

TEST(StateWalk, RefusesArraysOfNumpyThatAreNone) {
  const std::string dtype = "cnumpy\ndtype\n" + text("u1") + "K\0K\1\x87R"s;
  const auto array = [&](const std::string& bytes, const std::string& shape,
                         const std::string& order) {
    return walk("cnumpy._core.numeric\n_frombuffer\n(C" + number(bytes.size(), 1) + bytes + dtype +
                shape + order + "tR.");
  };
  const auto error = [](const State& state) {
    return state.leaves[0].leaf.info.error + state.leaves[0].leaf.unreadable;
  };
  const std::string k = text("K");
  const State good = array("123456", "K\2K\3\x86", k + "K\1K\0\x86"s);
  EXPECT_EQ(error(good), "");
  EXPECT_EQ(good.leaves[0].leaf.info.shape, Shape({3, 2}));
  EXPECT_THAT(error(array("123456", "K\2K\3\x86", k + "K\1K\1\x86")), HasSubstr("each once"));
  EXPECT_THAT(error(array("123456", "K\2K\3\x86", k + "K\1K\2\x86")), HasSubstr("each once"));
  EXPECT_THAT(error(array("123456", "K\2K\3\x86", k + "K\0\x85"s)), HasSubstr("number of axes"));
  EXPECT_THAT(error(array("12345", "K\2K\3\x86", text("C"))), HasSubstr("takes 6 bytes, but 5"));
  EXPECT_THAT(error(array("1", integers(std::vector<std::uint64_t>(300, 1)), text("F"))),
              HasSubstr("it has 300 dimensions"));
  // Types without a code, as those of records.
  for (const std::string other : {"cnumpy\ndtype\ncnumpy\nrecord\n\x85R", "cnumpy.x\ny\n)R"}) {
    const State state = walk("cnumpy._core.multiarray\nscalar\n" + other + "C\1x\x86R.");
    EXPECT_THAT(error(state), HasSubstr("is not one that Cairn reads from a pickle")) << other;
  }
}

TEST(StateWalk, TakesTensorsOfDevicesFromArrays) {
  const auto made = [](const std::string& bytes, const std::string& type) {
    return walk(
        "ctorch._utils\n_rebuild_device_tensor_from_numpy\n(cnumpy._core.multiarray\n"
        "scalar\ncnumpy\ndtype\n" +
        text("f4") + "\x85RC\4" + bytes + "\x86R" + type + text("xla:0") + "\x89tR.");
  };
  const State same = made("1234", "ctorch\nfloat32\n");
  EXPECT_EQ(same.leaves[0].leaf.info.dtype_name, "float32");
  const State half = made("\0\0\x80\x3f"s, "ctorch\nbfloat16\n");
  EXPECT_EQ(half.leaves[0].leaf.info.dtype_name, "bfloat16");
  EXPECT_EQ(as_text(ByteView(half.leaves[0].leaf.array.own)), "\x80\x3f");
  EXPECT_THAT(made("1234", "ctorch\nbfloat16\n").leaves[0].leaf.info.error,
              HasSubstr("not those of bfloat16"));
  EXPECT_THAT(made("1234", "ctorch\nfloat64\n").leaves[0].leaf.info.error,
              HasSubstr("torch.float64 that are stored as float32"));
}

TEST(StateWalk, ReadsNoTensorOfMoreDimensionsThanNumpyHas) {
  EXPECT_EQ(leaves_of(walk(dict("w", tensor(std::vector<std::uint64_t>(64, 1))) + ".")), "w");
  EXPECT_EQ(leaves_of(walk(dict("w", tensor(std::vector<std::uint64_t>(65, 1))) + ".")), "w?");
}

}  // namespace
}  // namespace cairn::pytorch
