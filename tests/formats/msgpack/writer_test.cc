// writer_test.cc -- the bytes of flax and Orbax for every kind of node, in memory, as a file, and
// fetched.
#include <cairn/io/file.h>
#include <cairn/msgpack.h>
#include <cairn/orbax/sharding.h>
#include <cairn/tensor_source.h>

#include <sys/mman.h>

#include <cstring>
#include <map>
#include <string>

#include "tests/formats/golden.h"
#include "tests/support/matchers.h"
#include "tests/support/temp_dir.h"

namespace cairn {
namespace {

using testing::FailsWith;
using testing::from_hex;
using testing::golden;
using testing::TempDir;

const std::string kGoldenFolder = "msgpack/flax-0.12.8_orbax-0.12.8/";
constexpr MsgpackDialect kEvery[] = {MsgpackDialect::kFlax, MsgpackDialect::kFlaxState,
                                     MsgpackDialect::kOrbax};

Bytes written(const Tree& tree, MsgpackDialect dialect = MsgpackDialect::kOrbax,
              DictOrder order = DictOrder::kSorted) {
  return msgpack_serialize(tree, {.dialect = dialect, .order = order});
}

template <class T>
Array make_array(DType dtype, const Shape& shape, const std::vector<T>& values) {
  Array array = Array::allocate(dtype, shape);
  std::memcpy(array.mutable_view().data, values.data(), values.size() * sizeof(T));
  return array;
}

Tree tuple(Tree::List items) { return Tree(Tree::Tuple{std::move(items)}); }
Tree integer(std::int64_t value) { return Tree(value); }
Tree text(std::string value) { return Tree(std::move(value)); }
Tree scalar(float value) {
  NumpyScalar made{.dtype = DType::kFloat32};
  std::memcpy(made.value.data(), &value, sizeof value);
  return Tree(made);
}

// "int16" in hexadecimal, behind its head.
std::string name_hex(const std::string& name) {
  std::string out = std::string("a") + "0123456789abcdef"[name.size()];
  for (const char c : name) {
    out += "0123456789abcdef"[static_cast<unsigned char>(c) >> 4U];
    out += "0123456789abcdef"[static_cast<unsigned char>(c) & 15U];
  }
  return out;
}

TEST(MsgpackWrite, TheExamplesOfTheFormatPage) {
  EXPECT_EQ(written(tuple({integer(1), integer(2)})), from_hex("c70304920102"));
  EXPECT_EQ(written(tuple({})), from_hex("d40490"));
  EXPECT_EQ(written(Tree(make_array<std::int16_t>(DType::kInt16, {2, 3}, {0, 1, 2, 3, 4, 5}))),
            from_hex("c71801"
                     "93920203" +
                     name_hex("int16") + "c40c000001000200030004000500"));
  EXPECT_EQ(written(scalar(1.5F)), from_hex("d8039390" + name_hex("float32") + "c4040000c03f"));
  EXPECT_EQ(written(Tree(std::complex<double>(1, 2))),
            from_hex("c7130292cb3ff0000000000000cb4000000000000000"));
  EXPECT_EQ(written(Tree(make_array<std::uint16_t>(DType::kBfloat16, {2}, {0x3f80, 0x3f80}))),
            from_hex("c712019391"
                     "02" +
                     name_hex("bfloat16") + "c404803f803f"));
  EXPECT_EQ(written(Tree(make_array<float>(DType::kFloat32, {}, {3}))),
            from_hex("d8019390" + name_hex("float32") + "c40400004040"));
}

TEST(MsgpackWrite, ContainersInEachDialect) {
  const Tree pair(Tree::NamedTuple{"m", "Pair", {{"y", integer(1)}, {"x", integer(2)}}});
  const struct {
    const char* name;
    Tree tree;
    const char* flax;  // "": refused
    const char* state;
    const char* orbax;
  } kCases[] = {
      {"list", Tree(Tree::List{integer(1), Tree(Tree::List{integer(2)})}), "92019102",
       "82a13001a13181a13002", "92019102"},
      {"tuple", tuple({integer(1), integer(2)}), "", "82a13001a13102", "c70304920102"},
      {"dict in a tuple", tuple({Tree(Tree::Dict{{"b", integer(1)}, {"a", integer(2)}})}), "",
       "81a13082a16102a16201", "d7049182a16102a16201"},
      {"tuple in a tuple", tuple({tuple({})}), "", "81a13080", "d60491d40490"},
      {"named tuple", pair, "", "82a17802a17901", "c70304920102"},
      {"empty dict", Tree(EmptyNode::kDict), "80", "80", "80"},
      {"empty list", Tree(EmptyNode::kList), "90", "80", "90"},
      {"empty tuple", Tree(EmptyNode::kTuple), "", "80", "d40490"},
      {"named tuple without fields", Tree(EmptyNode::kNamedTuple), "", "80", "d40490"},
      {"None", Tree(), "c0", "c0", "c0"},
      {"containers without children", Tree(Tree::List{Tree(Tree::Dict{}), Tree(Tree::List{})}),
       "928090", "82a13080a13180", "928090"},
  };
  for (const auto& c : kCases) {
    EXPECT_EQ(written(c.tree, MsgpackDialect::kFlaxState), from_hex(c.state)) << c.name;
    EXPECT_EQ(written(c.tree, MsgpackDialect::kOrbax), from_hex(c.orbax)) << c.name;
    if (*c.flax != '\0')
      EXPECT_EQ(written(c.tree, MsgpackDialect::kFlax), from_hex(c.flax)) << c.name;
    else
      EXPECT_THAT([&] { written(c.tree, MsgpackDialect::kFlax); },
                  FailsWith(Code::kInvalidArgument, "does not write tuples"))
          << c.name;
  }
}

TEST(MsgpackWrite, DictsAreSortedOrNot) {
  const Tree tree(Tree::Dict{
      {"b", integer(1)},
      {"a", Tree(Tree::Dict{{"z", integer(1)}, {"\xc3\xa9", integer(2)}, {"y", integer(3)}})}});
  for (const auto dialect : kEvery) {
    EXPECT_EQ(written(tree, dialect, DictOrder::kSorted),
              from_hex("82a16183a17903a17a01a2c3a902a16201"));
    EXPECT_EQ(written(tree, dialect, DictOrder::kBuilt),
              from_hex("82a16201a16183a17a01a2c3a902a17903"));
  }
  // As texts, elements' numbers sort "10" before "2".
  Tree::List eleven(11, integer(0));
  EXPECT_EQ(written(Tree(eleven), MsgpackDialect::kFlaxState, DictOrder::kSorted),
            from_hex("8ba13000a13100a2313000a13200a13300a13400a13500a13600a13700a13800a13900"));
  EXPECT_EQ(written(Tree(eleven), MsgpackDialect::kFlaxState, DictOrder::kBuilt),
            from_hex("8ba13000a13100a13200a13300a13400a13500a13600a13700a13800a13900a2313000"));
}

TEST(MsgpackWrite, NumbersTextsAndBytes) {
  EXPECT_EQ(written(Tree(true)), from_hex("c3"));
  EXPECT_EQ(written(integer(-33)), from_hex("d0df"));
  EXPECT_EQ(written(Tree(std::uint64_t{UINT64_MAX})), from_hex("cfffffffffffffffff"));
  EXPECT_EQ(written(Tree(0.1)), from_hex("cb3fb999999999999a"));
  EXPECT_EQ(written(text("\xc3\xa9")), from_hex("a2c3a9"));
  EXPECT_EQ(written(Tree(from_hex("00ff"))), from_hex("c40200ff"));
  const Bytes large = written(text(std::string(70'000, 'x')));
  EXPECT_EQ(large.size(), 70'005U);
  EXPECT_EQ(Bytes(large.begin(), large.begin() + 6), from_hex("db0001117078"));
}

TEST(MsgpackWrite, CutsLargeArraysBelowDictsAlone) {
  const Tree array(make_array<std::int16_t>(DType::kInt16, {3}, {0, 1, 2}));
  const std::string front =
      "83b9"
      "5f5f6d73677061636b5f6368756e6b65645f61727261795f5f"
      "c3a5"
      "7368617065"
      "81a13003a6"
      "6368756e6b73";
  const auto piece = [](const char* values) {
    return "c70d01939101" + name_hex("int16") + "c402" + values;
  };
  const std::string pieces =
      "83a130" + piece("0000") + "a131" + piece("0100") + "a132" + piece("0200");
  const std::string whole = "c71101939103" + name_hex("int16") + "c406000001000200";
  const auto small = [&](const Tree& tree, MsgpackDialect dialect, std::uint64_t limit) {
    return msgpack_serialize(tree, {.dialect = dialect, .chunk_bytes = limit});
  };
  for (const auto dialect : kEvery) {
    EXPECT_EQ(small(array, dialect, 3), from_hex(front + pieces))
        << "one element fits a piece of three bytes";
    EXPECT_EQ(small(array, dialect, 1), from_hex(front + pieces)) << "at least one element";
    EXPECT_EQ(small(array, dialect, 6), from_hex(whole)) << "only more than the limit";
    EXPECT_EQ(small(Tree(Tree::Dict{{"a", Tree(Tree::Dict{{"b", array}})}}), dialect, 3),
              from_hex("81a16181a162" + front + pieces));
  }
  // In lists they are left whole, unless these become dicts.
  const Tree list(Tree::List{Tree(Tree::Dict{{"a", array}})});
  EXPECT_EQ(small(list, MsgpackDialect::kFlax, 3), from_hex("9181a161" + whole));
  EXPECT_EQ(small(list, MsgpackDialect::kOrbax, 3), from_hex("9181a161" + whole));
  EXPECT_EQ(small(list, MsgpackDialect::kFlaxState, 3), from_hex("81a13081a161" + front + pieces));
  const Tree restored = msgpack_restore(small(array, MsgpackDialect::kOrbax, 3));
  ASSERT_NE(restored.array(), nullptr);
  EXPECT_EQ(testing::to_bytes(restored.array()->bytes()), from_hex("000001000200"));
}

TEST(MsgpackWrite, TheSameAsThePackagesWrote) {
  const Json files = testing::golden_json(kGoldenFolder + "leaves.json");
  std::size_t same = 0;
  for (const auto& [name, leaves] : *files.as_object()) {
    if (name == "flax_int_keys") continue;  // keys that became texts
    const Bytes file = read_file(golden(kGoldenFolder + name + ".msgpack"));
    const std::uint64_t limit =
        name.find("chunked") == std::string::npos ? std::uint64_t{1} << 30U : 64;
    const MsgpackDialect dialect =
        name.starts_with("orbax") ? MsgpackDialect::kOrbax : MsgpackDialect::kFlax;
    for (const auto order : {DictOrder::kSorted, DictOrder::kBuilt}) {
      EXPECT_EQ(msgpack_serialize(msgpack_restore(file),
                                  {.dialect = dialect, .order = order, .chunk_bytes = limit}),
                file)
          << name;
      ++same;
    }
  }
  EXPECT_GE(same, 60U);
}

TEST(MsgpackRestore, KeepsWhatTheBytesSay) {
  const Tree tree(Tree::Dict{
      {"z", tuple({scalar(1.5F), Tree(std::complex<double>(1, -2)), Tree(from_hex("00ff"))})},
      {"a", Tree(Tree::List{tuple({}), Tree(EmptyNode::kDict), Tree()})},
      {"u", Tree(std::uint64_t{UINT64_MAX})}});
  const auto file =
      std::make_shared<const Bytes>(written(tree, MsgpackDialect::kOrbax, DictOrder::kBuilt));
  const Tree back = msgpack_restore(*file, file);
  EXPECT_EQ(back.dict()->at(0).first, "z") << "the order of the bytes";
  const Tree::Tuple& z = *back.find("z")->tuple();
  EXPECT_EQ(std::get<NumpyScalar>(z.items[0].value()), std::get<NumpyScalar>(scalar(1.5F).value()));
  EXPECT_EQ(std::get<std::complex<double>>(z.items[1].value()), std::complex<double>(1, -2));
  EXPECT_EQ(std::get<Bytes>(z.items[2].value()), from_hex("00ff"));
  EXPECT_EQ(std::get<EmptyNode>(back.find("a")->find("0")->value()), EmptyNode::kTuple);
  EXPECT_EQ(std::get<EmptyNode>(back.find("a")->find("1")->value()), EmptyNode::kDict);
  EXPECT_EQ(std::get<std::uint64_t>(back.find("u")->value()), UINT64_MAX);
}

TEST(MsgpackRestore, ArraysOutliveBytesWithoutAnOwner) {
  Tree tree;
  {
    const Bytes bytes =
        written(Tree(Tree::List{Tree(make_array<std::uint8_t>(DType::kUint8, {3}, {1, 2, 3}))}));
    tree = msgpack_restore(bytes);
  }
  EXPECT_EQ(testing::to_bytes(tree.find("0")->array()->bytes()), from_hex("010203"));
}

TEST(MsgpackRestore, KeepsTimesAndTypesWithoutADType) {
  const MsgpackTimestamp times[] = {
      {0, 0},         {UINT32_MAX, 0}, {0, 1},         {(1LL << 34) - 1, 999'999'999},
      {1LL << 34, 0}, {-1, 5},         {INT64_MIN, 0}, {INT64_MAX, 7}};
  for (const MsgpackTimestamp& time : times)
    EXPECT_EQ(*msgpack_restore(written(Tree(time))).custom<MsgpackTimestamp>(), time)
        << time.seconds;
  const NumpyArray dates{"datetime64[25s]", {2}, Bytes(16, std::byte{1})};
  EXPECT_EQ(*msgpack_restore(written(Tree(dates))).custom<NumpyArray>(), dates);
  const NumpyArray real{"float128", {}, Bytes(16), true};
  EXPECT_EQ(*msgpack_restore(written(Tree(real))).custom<NumpyArray>(), real);
}

TEST(MsgpackWrite, ShardedArraysAreGathered) {
  const Array whole = make_array<std::int16_t>(DType::kInt16, {4}, {1, 2, 3, 4});
  const NamedSharding sharding{make_mesh({2}, {"x"}), {{"x"}}};
  const Tree sharded(Tree::Dict{{"b", Tree(ShardedArray::from_array(whole, sharding))},
                                {"a", Tree(ShardedArray::from_array(whole, sharding))}});
  const Tree plain(Tree::Dict{{"b", Tree(whole)}, {"a", Tree(whole)}});
  for (const MsgpackDialect dialect : kEvery) {
    EXPECT_EQ(written(sharded, dialect), written(plain, dialect));
    EXPECT_EQ(msgpack_serialize(sharded, {.dialect = dialect, .chunk_bytes = 3}),
              msgpack_serialize(plain, {.dialect = dialect, .chunk_bytes = 3}));
  }
  const std::int64_t here[] = {1};
  const Tree part(Tree::Dict{{"w", Tree(ShardedArray::from_array(whole, sharding, here))}});
  EXPECT_THAT([&] { written(part); }, FailsWith(Code::kFailedPrecondition, "w: "));
}

// ---- what is refused ----

TEST(MsgpackRestore, RefusesWhatThePackagesCannotRestore) {
  for (const std::string name :
       {"str64", "bytes16", "void24", "record64", "datetime64[", "datetime64[x]", "datetime64s"})
    EXPECT_THAT(
        [&] {
          msgpack_restore(written(Tree(NumpyArray{name, {1}, Bytes(8)})));
        },
        FailsWith(Code::kUnimplemented, "elements of type '" + name + "'"))
        << name;
  // An array of shape (1,) of datetime64[s], which has 8 bytes, in 4 bytes.
  const Bytes half = from_hex("c71701939101ad6461746574696d6536345b735dc40400000000");
  EXPECT_THAT([&] { msgpack_restore(half); }, FailsWith(Code::kDataLoss, "4 bytes do not hold"));
  const Bytes integer_key = from_hex("8101c0");
  EXPECT_NE(msgpack_restore(integer_key).find("1"), nullptr);
  EXPECT_THAT([&] { msgpack_restore(integer_key, nullptr, MsgpackDialect::kOrbax); },
              FailsWith(Code::kDataLoss, "the key 1 is an integer"));
}

// An array that would take so many bytes; nobody may look at them.
Tree huge(std::uint64_t nbytes) {
  void* memory =
      mmap(nullptr, nbytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  EXPECT_NE(memory, MAP_FAILED);
  const std::shared_ptr<const void> owner(memory, [nbytes](void* p) { munmap(p, nbytes); });
  return Tree(Array(DType::kUint8, 1, {static_cast<std::int64_t>(nbytes)}, owner,
                    static_cast<const std::byte*>(memory)));
}

Tree deep(std::size_t levels) {
  Tree tree = integer(1);
  for (std::size_t i = 0; i < levels; ++i) {
    Tree::List above;
    above.push_back(std::move(tree));  // an initializer list would copy all levels below
    tree = Tree(std::move(above));
  }
  return tree;
}

TEST(MsgpackWrite, NamesWhatItRefuses) {
  constexpr std::uint64_t k4GiB = std::uint64_t{1} << 32U;
  const struct {
    const char* name;
    Tree tree;
    const char* expect;
  } kBad[] = {
      {"placeholder", Tree(Tree::Dict{{"a", Tree(Tree::List{Tree(), Tree(Placeholder{})})}}),
       "a.1: a placeholder (Ellipsis)"},
      {"root", Tree(Placeholder{}), "the root: a placeholder (Ellipsis)"},
      {"custom leaf", Tree(Tree::Dict{{"c", Tree(CustomLeaf::of(1))}}),
       "c: a leaf of a custom C++ type"},
      {"source that is not there", Tree(SourceLeaf{.index = 2}),
       "source 2 is out of range: there are 0"},
      {"text", text("\xff"), "a string is not UTF-8"},
      {"surrogate", text("\xed\xa0\x80"), "a string is not UTF-8"},
      {"key", Tree(Tree::Dict{{"\xff", integer(1)}}), "a key is not UTF-8"},
      {"key twice", Tree(Tree::Dict{{"k", Tree(Tree::Dict{{"a", integer(1)}, {"a", integer(2)}})}}),
       "k: the key \"a\" appears twice"},
      {"opaque array", Tree(Array::allocate(DType::kOpaque, 3, {2})),
       "an array whose elements Cairn does not interpret"},
      {"typed key", Tree(ShardedArray{.shape = {2}, .random_key_impl = "rbg"}),
       "the root: a typed PRNG key cannot be written"},
      {"timestamp", Tree(MsgpackTimestamp{0, 1'000'000'000}), "has 1000000000 nanoseconds"},
      {"objects", Tree(NumpyArray{"object", {1}, Bytes(8)}), "an array of Python objects"},
      {"array without a type", Tree(NumpyArray{"", {1}, Bytes(8)}), "type has no name"},
      {"array of a type that is not UTF-8", Tree(NumpyArray{"\xff", {1}, Bytes(8)}), "not UTF-8"},
      {"array with part of an element", Tree(NumpyArray{"datetime64[s]", {2}, Bytes(9)}),
       "9 bytes do not hold an array of shape (2,) of datetime64[s]"},
      {"half of a type that only NumPy has", Tree(NumpyArray{"complex256", {1}, Bytes(16)}),
       "16 bytes do not hold an array of shape (1,) of complex256"},
      {"elements of an empty array", Tree(NumpyArray{"str32", {0}, Bytes(4)}),
       "4 bytes do not hold an array of shape (0,)"},
      {"known type of another size", Tree(NumpyArray{"float32", {2}, Bytes(4)}),
       "4 bytes do not hold an array of shape (2,) of float32"},
      {"negative extent", Tree(NumpyArray{"str32", {-1}, Bytes(4)}), "of shape (-1,)"},
      {"scalar with a shape", Tree(NumpyArray{"str32", {1}, Bytes(4), true}),
       "a scalar has no dimensions"},
      {"opaque scalar", Tree(NumpyScalar{.dtype = DType::kOpaque}), "a NumPy scalar of a type"},
      {"depth", deep(1001), "nested deeper than 1000 levels"},
      {"array in a list", Tree(Tree::List{huge(k4GiB)}),
       "0: a bytes object of length 4294967296 is too large"},
      {"array whose shape does not fit", Tree(Tree::List{huge(k4GiB - 1)}),
       "0: an extension object (an array, or a tuple) of length 4294967313"},
      {"tuple", tuple({huge(k4GiB / 2), huge(k4GiB / 2)}),
       "the root: an extension object (an array, or a tuple) of length"},
  };
  for (const auto& bad : kBad)
    EXPECT_THAT([&] { written(bad.tree); }, FailsWith(Code::kInvalidArgument, bad.expect))
        << bad.name;
  EXPECT_NO_THROW(written(deep(1000)));
}

// ---- files ----

TEST(MsgpackWrite, FilesHoldTheSameBytes) {
  TempDir dir;
  std::vector<float> values(100'000);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  const Tree tree(Tree::Dict{{"w", Tree(make_array<float>(DType::kFloat32, {100, 1000}, values))},
                             {"t", text(std::string(5000, 'x'))},
                             {"l", Tree(Tree::List{scalar(2), integer(7)})}});
  MsgpackWriteOptions options;
  options.encoding.chunk_bytes = 1000;
  std::uint64_t done = 0, total = 0;
  options.progress = [&](std::uint64_t d, std::uint64_t t) { done = d, total = t; };
  write_msgpack(dir / "a", tree, options);
  const Bytes bytes = msgpack_serialize(tree, options.encoding);
  EXPECT_EQ(read_file(dir / "a"), bytes);
  EXPECT_EQ(done, bytes.size());
  EXPECT_EQ(total, bytes.size());
  EXPECT_THAT([&] { write_msgpack(dir / "a", Tree(), options); },
              FailsWith(Code::kAlreadyExists, dir / "a"));
  EXPECT_EQ(read_file(dir / "a"), bytes);
  options.if_exists = IfExists::kReplace;
  write_msgpack(dir / "a", Tree(), options);
  EXPECT_EQ(read_file(dir / "a"), from_hex("c0"));
  EXPECT_THAT([&] { write_msgpack(dir / "none/a", Tree(), options); }, FailsWith(Code::kNotFound));
  EXPECT_THAT([&] { write_msgpack(dir / "b", Tree(Placeholder{}), options); },
              FailsWith(Code::kInvalidArgument));
  EXPECT_FALSE(file_exists(dir / "b"));
}

TEST(MsgpackWrite, FetchesEachByteOnceInTheOrderOfTheFile) {
  TempDir dir;
  const Array w = make_array<std::int32_t>(DType::kInt32, {5, 10}, [] {
    std::vector<std::int32_t> values(50);
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<std::int32_t>(i);
    return values;
  }());
  const Array b = make_array<std::uint8_t>(DType::kUint8, {3}, {7, 8, 9});
  const std::vector<TensorSource> sources{{"b", DType::kUint8, {3}},
                                          {"w", DType::kInt32, {5, 10}, 40},
                                          {"unused", DType::kOpaque, {1}}};
  const auto leaf = [](std::size_t i, SourceLeaf::As as = SourceLeaf::As::kArray) {
    return Tree(SourceLeaf{i, as});
  };
  const Tree tree(Tree::Dict{
      {"w", leaf(1)}, {"b", leaf(0)}, {"raw", leaf(0, SourceLeaf::As::kBytes)}, {"n", integer(3)}});
  const Tree whole(Tree::Dict{{"w", Tree(w)},
                              {"b", Tree(b)},
                              {"raw", Tree(testing::to_bytes(b.bytes()))},
                              {"n", integer(3)}});
  MsgpackWriteOptions options;
  options.encoding.chunk_bytes = 30;
  options.resources.memory = 64;
  std::map<std::pair<std::size_t, std::uint64_t>, int> fetched;
  const FetchFn fetch = [&](std::span<const TensorPiece> pieces) {
    for (const TensorPiece& piece : pieces) {
      const ByteView from =
          (piece.tensor == 0 ? b : w).bytes().subspan(piece.offset, piece.out.size());
      std::copy(from.begin(), from.end(), piece.out.begin());
      for (std::size_t i = 0; i < from.size(); ++i) ++fetched[{piece.tensor, piece.offset + i}];
    }
  };
  write_msgpack(dir / "a", tree, sources, fetch, options);
  EXPECT_EQ(read_file(dir / "a"), msgpack_serialize(whole, options.encoding));
  EXPECT_EQ(fetched.size(), 203U);
  // b is in the tree twice
  for (const auto& [byte, times] : fetched) EXPECT_EQ(times, byte.first == 0 ? 2 : 1);
  const FetchFn failing = [](std::span<const TensorPiece>) {
    throw Error(Code::kIo, "the disk is gone");
  };
  EXPECT_THAT([&] { write_msgpack(dir / "b", tree, sources, failing, options); },
              FailsWith(Code::kIo, "the disk is gone"));
  EXPECT_FALSE(file_exists(dir / "b"));
}

}  // namespace
}  // namespace cairn
