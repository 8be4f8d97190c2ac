// writing_test.cc -- what is written for PyTorch: pickles, the layout of archives, states as
// Distributed Checkpoints flatten them.
#include <cairn/base/checksum.h>
#include <cairn/formats/pytorch/pickle/pickle.h>
#include <cairn/formats/pytorch/pickle/pickle_writer.h>
#include <cairn/formats/pytorch/write/distributed_file.h>
#include <cairn/formats/pytorch/write/state_entries.h>
#include <cairn/formats/pytorch/write/state_pickler.h>
#include <cairn/formats/pytorch/write/torch_archive.h>
#include <cairn/formats/zip/zip_directory.h>
#include <cairn/pytorch.h>
#include <cairn/tree.h>

#include <gmock/gmock.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/matchers.h"
#include "tests/support/temp_dir.h"

namespace cairn {
namespace {

using pickle::Kind;
using pickle::PickleWriter;
using testing::FailsWith;

std::string hex(ByteView bytes) {
  std::string text;
  for (const std::byte byte : bytes) {
    constexpr std::string_view kDigits = "0123456789abcdef";
    text += kDigits[std::to_integer<unsigned>(byte) >> 4U];
    text += kDigits[std::to_integer<unsigned>(byte) & 15U];
  }
  return text;
}

template <class Write>
std::string pickled(Write write) {
  PickleWriter out;
  write(out);
  return hex(std::move(out).take());
}

TEST(PickleWriter, WritesIntegersAsPythonDoes) {
  // pickle.dumps(value, 2).hex()
  const std::vector<std::pair<std::int64_t, std::string>> signed_values = {
      {0, "80024b002e"},
      {255, "80024bff2e"},
      {256, "80024d00012e"},
      {65536, "80024a000001002e"},
      {2147483647, "80024affffff7f2e"},
      {2147483648, "80028a0500000080002e"},
      {1099511627775, "80028a06ffffffffff002e"},
      {-1, "80024affffffff2e"},
      {-2147483648, "80024a000000802e"},
      {-2147483649, "80028a05ffffff7fff2e"},
      {-549755813888, "80028a0500000000802e"},
      {std::numeric_limits<std::int64_t>::min(), "80028a0800000000000000802e"},
      {std::numeric_limits<std::int64_t>::max(), "80028a08ffffffffffffff7f2e"}};
  for (const auto& [value, want] : signed_values)
    EXPECT_EQ(pickled([value = value](PickleWriter& out) { out.integer(value); }), want) << value;
  EXPECT_EQ(
      pickled([](PickleWriter& out) { out.integer(std::numeric_limits<std::uint64_t>::max()); }),
      "80028a09ffffffffffffffff002e");
}

TEST(PickleWriter, IsReadBack) {
  PickleWriter out;
  out.list(2001, [&](std::size_t i) { out.text(std::to_string(i % 300)); });
  const pickle::Pickle read = pickle::parse_pickle(std::move(out).take());
  ASSERT_EQ(read.kind(read.root()), Kind::kList);
  ASSERT_EQ(read.items(read.root()).size(), 2001U);
  for (std::size_t i = 0; i < 2001; ++i)
    ASSERT_EQ(read.text(read.items(read.root())[i]), std::to_string(i % 300));
}

// The places in an archive that torch 2.13 wrote with skip_data: tensors of 100,
// 2^32 + 12, 12, 0, 2^32 and 2^32 - 4 bytes, and a pickle of 466.
TEST(TorchArchive, HasThePlacesOfTorchSaveBeyond4GiB) {
  pytorch::TorchArchive archive("big");
  archive.begin(Bytes(466));
  const std::vector<std::uint64_t> sizes = {100, 4294967308, 12, 0, 4294967296, 4294967292};
  std::vector<std::uint64_t> begins;
  for (const std::uint64_t size : sizes) begins.push_back(archive.add_storage(size));
  archive.finish();
  EXPECT_THAT(begins,
              ::testing::ElementsAre(1024, 1216, 4294968640, 4294968768, 4294968896, 8589936320));
  EXPECT_EQ(archive.size(), 12884904857U);
  const std::vector<std::uint32_t> checksums(sizes.size(), 0);
  // The local header of the second storage, behind the descriptor of the first.
  const std::string second = hex(archive.between(1, checksums));
  EXPECT_EQ(second.substr(0, 32), "504b0708000000006400000064000000");
  EXPECT_NE(second.find("010010000c000000010000000000000000000000"
                        "46420c005a"),
            std::string::npos);
  // The descriptor of a small storage beyond 4 GiB has 64 bits.
  EXPECT_EQ(hex(archive.between(3, checksums)).substr(0, 48),
            "504b0708000000000c000000000000000c00000000000000");
  // The central directory begins at 12884903936, behind the last descriptor.
  const std::string end = hex(archive.between(6, checksums));
  EXPECT_TRUE(
      end.ends_with("504b06062c000000000000001e032d0000000000000000000c000000000000000c00"
                    "00000000000037030000000000000008000003000000504b060700000000370b0000"
                    "0300000001000000504b0506000000000c000c0037030000ffffffff0000"));
  EXPECT_NE(end.find("0100180000000000010000000000000001000000c005000001000000"),
            std::string::npos);
}

TEST(TorchArchive, ConsistsOfItsFrames) {
  pytorch::TorchArchive archive("archive");
  archive.begin(Bytes(7));
  const std::vector<std::uint64_t> sizes = {3, 0, 100};
  std::vector<std::uint64_t> begins;
  for (const std::uint64_t size : sizes) begins.push_back(archive.add_storage(size));
  archive.finish();
  Bytes whole;
  const std::vector<std::uint32_t> checksums = {crc32(Bytes(3)), 0, crc32(Bytes(100))};
  for (std::size_t i = 0; i <= sizes.size(); ++i) {
    const Bytes frame = archive.between(i, checksums);
    whole.insert(whole.end(), frame.begin(), frame.end());
    if (i == sizes.size()) break;
    ASSERT_EQ(whole.size(), begins[i]);
    whole.resize(whole.size() + sizes[i]);
  }
  ASSERT_EQ(whole.size(), archive.size());
  const ReadAtFn read = [&](std::uint64_t at, MutableByteView out) {
    std::copy_n(whole.begin() + static_cast<std::ptrdiff_t>(at), out.size(), out.begin());
  };
  auto members = read_zip_directory(whole.size(), read);
  for (auto& member : members) {
    locate_zip_member(member, read);
    Bytes content(member.size);
    read(member.offset, content);
    EXPECT_EQ(crc32(content), member.crc) << member.name;
    EXPECT_EQ(member.offset % 64, 0U) << member.name;
  }
  check_no_overlap(members);
  EXPECT_EQ(members.size(), 4 + sizes.size() + 2);
}

TEST(FlattenState, OpensDictsAndListsWithTensors) {
  const Array array = Array::from<float>({1, 2}, {2});
  const Tree tree{{"m", {{"w", array}, {"e", Tree(EmptyNode::kDict)}}},
                  {"l", Tree(Tree::List{Tree(1), Tree(array)})},
                  {"n", Tree(Tree::List{Tree(1), Tree(2)})},
                  {"t", Tree(Tree::Tuple{{Tree(array)}})},
                  {"o", Tree(EmptyNode::kList)}};
  std::vector<std::string> names;
  for (const pytorch::StateEntry& entry : pytorch::flatten_state(tree))
    names.push_back(entry.name + (entry.is_tensor ? ":tensor" : ":object"));
  EXPECT_THAT(names, ::testing::ElementsAre("m.w:tensor", "l.0:object", "l.1:tensor", "n:object",
                                            "t:object", "o:object"));
  EXPECT_THAT(
      [] {
        pytorch::flatten_state(Tree{{"a.b", 1}, {"a", {{"b", 2}}}});
      },
      FailsWith(Code::kInvalidArgument, "named \"a.b\""));
  EXPECT_THAT([] { pytorch::flatten_state(Tree(3)); },
              FailsWith(Code::kInvalidArgument, "holds a dict"));
  Tree deep(1);
  for (int i = 0; i < 1002; ++i) deep = Tree{{"d", std::move(deep)}};
  EXPECT_THAT([&] { pytorch::flatten_state(deep); },
              FailsWith(Code::kInvalidArgument, "more than 1000 levels"));
  EXPECT_THAT([&] { pytorch::pickle_state(deep, {}, {}); },
              FailsWith(Code::kInvalidArgument, "more than 1000 levels"));
}

// A tensor of more than a tebibyte, of which each process plans its share: no chunk is nobody's.
TEST(DistributedFile, DealsEachChunkToOneProcess) {
  const std::vector<TensorSource> sources = {{"w", DType::kUint8, {std::int64_t{1} << 42, 1}, 0},
                                             {"e", DType::kUint8, {0, 3}, 0},
                                             {"b", DType::kFloat32, {7}, 0}};
  const Tree tree{{"w", SourceLeaf{0}}, {"e", SourceLeaf{1}}, {"b", SourceLeaf{2}}, {"n", 3}};
  const std::vector<pytorch::StateEntry> entries = pytorch::flatten_state(tree);
  const std::vector<DictKeyTypes> none;
  const pytorch::ChunkRules rules{.chunk_bytes = std::uint64_t{1} << 32U};
  for (const std::size_t count : {1, 3}) {
    std::vector<std::int64_t> elements(entries.size(), 0);
    std::size_t objects = 0, parts = 0;
    for (std::size_t rank = 0; rank < count; ++rank) {
      const pytorch::DistributedFile file(
          entries, sources, none, rules,
          {.sources = {.index = rank, .count = count}, .has_values = rank == 0});
      for (const pytorch::WrittenPart& part : file.parts()) {
        ++parts;
        if (part.box)
          elements[part.entry] += element_count(part.box->shape);
        else
          ++objects;
      }
    }
    EXPECT_THAT(elements, ::testing::ElementsAre(std::int64_t{1} << 42, 0, 7, 0)) << count;
    EXPECT_EQ(objects, 1U) << count;
    EXPECT_EQ(parts, 1024U + 1 + 1 + 1) << count;
  }
}

TEST(WriteTorch, RefusesWhatPyTorchLacks) {
  const testing::TempDir dir;
  const auto write = [&](Tree leaf) {
    write_torch(dir / "a.pt", Tree{{"m", {{"x", std::move(leaf)}}}});
  };
  EXPECT_THAT([&] { write(Tree(Placeholder())); },
              FailsWith(Code::kInvalidArgument, "m.x: a placeholder"));
  EXPECT_THAT([&] { write(Tree(std::string("\xff"))); },
              FailsWith(Code::kInvalidArgument, "m.x: a string is not UTF-8"));
  EXPECT_THAT([&] { write(Tree(Array::allocate(DType::kInt4, {2}))); },
              FailsWith(Code::kInvalidArgument, "m.x: elements of type int4"));
  EXPECT_THAT([&] { write(Tree(SourceLeaf{3})); },
              FailsWith(Code::kInvalidArgument, "m.x: source 3 is out of range"));
  write(Tree(1));
  EXPECT_THAT([&] { write(Tree(2)); }, FailsWith(Code::kAlreadyExists, "a.pt"));
}

}  // namespace
}  // namespace cairn
