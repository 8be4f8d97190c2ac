// tar_file_test.cc -- the tar form of torch.save: what a good file holds, and what is said of
// damaged ones. The files are small enough to be written by hand.
#include <cairn/formats/detect.h>
#include <cairn/formats/pytorch/file/tar_members.h>
#include <cairn/inspect.h>
#include <cairn/open.h>
#include <cairn/pytorch.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "tests/formats/golden.h"
#include "tests/support/damage.h"
#include "tests/support/matchers.h"
#include "tests/support/tar.h"
#include "tests/support/temp_dir.h"

namespace cairn {
namespace {

using namespace std::string_literals;
using ::testing::ElementsAre;
using testing::FailsWith;
using testing::golden;
using ::testing::HasSubstr;
using testing::put_file;
using testing::tar_end;
using testing::tar_header;
using testing::tar_member;
using testing::TempDir;

const std::string kTarSeed = golden("../../fuzz/corpus/pytorch/tar.pt");

// ---- the container ----

pytorch::TarArchive read_archive(const std::string& bytes) {
  return pytorch::read_tar(bytes.size(), [&](std::uint64_t at, MutableByteView out) {
    ASSERT_LE(at + out.size(), bytes.size());
    std::ranges::copy(as_bytes(bytes).subspan(at, out.size()), out.begin());
  });
}

TEST(TarMembers, AreListed) {
  const pytorch::TarArchive archive =
      read_archive(tar_member("a", "1234") + tar_member("b/c", std::string(512, 'x')) +
                   tar_member("old", "", '\0') + tar_end());
  ASSERT_EQ(archive.members.size(), 3U);
  EXPECT_EQ(archive.members[0].name, "a");
  EXPECT_EQ(archive.members[0].offset, 512U);
  EXPECT_EQ(archive.members[0].size, 4U);
  EXPECT_EQ(archive.members[1].name, "b/c");
  EXPECT_EQ(archive.members[1].offset, 1536U);
  EXPECT_EQ(archive.members[2].name, "old");
  EXPECT_EQ(archive.end, 2560U);
  EXPECT_TRUE(read_archive(tar_end()).members.empty());
}

TEST(TarMembers, TakeTheirPathAndSizeFromRecords) {
  const pytorch::TarArchive archive =
      read_archive(tar_member("x", "13 mtime=1.5\n15 path=./real\n9 size=3\n", 'x') +
                   tar_member("short", "1234") + tar_member("next", "12") + tar_end());
  ASSERT_EQ(archive.members.size(), 2U);
  EXPECT_EQ(archive.members[0].name, "./real");
  EXPECT_EQ(archive.members[0].size, 3U);
  EXPECT_EQ(archive.members[1].name, "next");
}

// A file of 2^40 bytes with one content: the size of such a member is only in its records.
TEST(TarMembers, MayHaveMoreThan8GiB) {
  const std::uint64_t content = std::uint64_t{1} << 40U;
  const std::string records = tar_member("x", "22 size=1099511627776\n", 'x');
  std::string header = tar_header("storages", 0);
  const std::string begin = records + header;
  const std::uint64_t size = begin.size() + content + tar_end().size();
  const pytorch::TarArchive archive =
      pytorch::read_tar(size, [&](std::uint64_t at, MutableByteView out) {
        for (std::byte& byte : out) {
          byte = at < begin.size() ? static_cast<std::byte>(begin[at]) : std::byte{0};
          ++at;
        }
      });
  ASSERT_EQ(archive.members.size(), 1U);
  EXPECT_EQ(archive.members[0].size, content);
}

struct BadArchive {
  const char* name;
  std::string bytes;
  Code code;
  const char* expect;
};

std::string with_byte(std::string bytes, std::size_t at, char value) {
  bytes[at] = value;
  return bytes;
}

std::string many_members(int count) {
  std::string bytes;
  for (int i = 0; i < count; ++i) bytes += tar_member("m" + std::to_string(i), "");
  return bytes + tar_end();
}

TEST(TarMembers, SayWhatIsWrong) {
  const std::string good = tar_member("a", "1234");
  std::string binary = tar_header("a", 4);
  binary[124] = '\x80';
  testing::set_tar_checksum(binary);
  std::string blank = tar_header("a", 4);
  blank.replace(124, 12, 12, ' ');
  testing::set_tar_checksum(blank);
  const BadArchive table[] = {
      {"no end", good, Code::kDataLoss, "the archive has no end: the file ends at byte 1024"},
      {"half a block", good + std::string(100, '\0'), Code::kDataLoss, "has no end"},
      {"empty", "", Code::kDataLoss, "has no end"},
      {"a flip in the name", with_byte(good, 0, 'b') + tar_end(), Code::kDataLoss,
       "byte 0: the checksum of this header does not match"},
      {"a flip in the size", with_byte(good, 130, '7') + tar_end(), Code::kDataLoss, "checksum"},
      {"no checksum", with_byte(good, 148, 'z') + tar_end(), Code::kDataLoss,
       "its checksum is not an octal number"},
      {"no header", good + std::string(512, 'x') + tar_end(), Code::kDataLoss,
       "byte 1024: there is no header of a tar archive"},
      {"a binary size", binary + std::string(512, 'x') + tar_end(), Code::kDataLoss,
       "its size is not an octal number"},
      {"no size", blank + std::string(512, 'x') + tar_end(), Code::kDataLoss,
       "its size is not an octal number"},
      {"beyond the end", tar_header("a", 1 << 20) + tar_end(), Code::kDataLoss,
       "byte 0: a: its 1048576 bytes begin at byte 512, but the file ends at byte 1536"},
      {"twice", good + good + tar_end(), Code::kDataLoss,
       "byte 1024: a: the archive has two members of this name"},
      {"hard link", tar_member("a", "", '1') + tar_end(), Code::kUnimplemented,
       "a: is a hard link"},
      {"link", tar_member("a", "", '2') + tar_end(), Code::kUnimplemented, "is a symbolic link"},
      {"device", tar_member("a", "", '4') + tar_end(), Code::kUnimplemented, "is a device"},
      {"folder", tar_member("a/", "", '5') + tar_end(), Code::kUnimplemented, "a/: is a folder"},
      {"pipe", tar_member("a", "", '6') + tar_end(), Code::kUnimplemented, "is a pipe"},
      {"long name", tar_member("a", "b", 'L') + tar_end(), Code::kUnimplemented, "is neither a"},
      {"global records", tar_member("a", "", 'g') + tar_end(), Code::kUnimplemented,
       "is neither a"},
      {"too many", many_members(65), Code::kUnimplemented, "a tar archive of more than 64 members"},
      {"records of nothing", tar_member("x", "9 size=3\n", 'x') + tar_end(), Code::kDataLoss,
       "byte 1024: the member that records are about is missing"},
      {"records twice", tar_member("x", "", 'x') + tar_member("x", "", 'x') + tar_end(),
       Code::kDataLoss, "two members have records about the same one"},
      {"long records", tar_member("x", std::string(70000, 'x'), 'x') + good + tar_end(),
       Code::kDataLoss, "records of 70000 bytes"},
      {"unknown records", tar_member("x", "19 GNU.sparse.map=\n", 'x') + good + tar_end(),
       Code::kUnimplemented, "records \"GNU.sparse.map\" of a tar archive"},
      {"short record", tar_member("x", "99 size=3\n", 'x') + good + tar_end(), Code::kDataLoss,
       "another length than it says"},
      {"record of nothing", tar_member("x", "2 size=3\n", 'x') + good + tar_end(), Code::kDataLoss,
       "another length than it says"},
      {"no length", tar_member("x", "size=3\n", 'x') + good + tar_end(), Code::kDataLoss,
       "another length than it says"},
      {"no value", tar_member("x", "7 size\n", 'x') + good + tar_end(), Code::kDataLoss,
       "a record of a tar archive has no \"=\""},
      {"no number", tar_member("x", "11 size=-3\n", 'x') + good + tar_end(), Code::kDataLoss,
       "the size in a record is not a number"},
      {"record beyond the end",
       tar_member("x", "29 size=18446744073709551615\n", 'x') + good + tar_end(), Code::kDataLoss,
       "its 18446744073709551615 bytes begin at byte 1536"},
  };
  EXPECT_NO_THROW(read_archive(many_members(64)));
  for (const BadArchive& bad : table) {
    SCOPED_TRACE(bad.name);
    EXPECT_THAT([&] { read_archive(bad.bytes); }, FailsWith(bad.code, bad.expect));
  }
}

// ---- the members ----

std::string int_text(std::int64_t value) {
  std::string bytes = "\x8a\x08"s;
  for (int i = 0; i < 8; ++i) bytes += static_cast<char>(value >> (8 * i));
  return bytes;
}
std::string pickled(const std::string& opcodes) { return "\x80\x02" + opcodes + "."; }
std::string count_text(int count) { return pickled(int_text(count)); }
std::string class_text(const std::string& name) { return "ctorch\n" + name + "\n"; }
std::string numbers(const std::vector<std::int64_t>& values) {
  std::string bytes;
  for (const std::int64_t value : values)
    for (int i = 0; i < 8; ++i) bytes += static_cast<char>(value >> (8 * i));
  return bytes;
}

std::string storage_text(int key, const std::string& type, std::int64_t count,
                         const std::string& elements) {
  return pickled("(" + int_text(key) + "U\x03" + "cpu" + class_text(type) + "t") +
         numbers({count}) + elements;
}
// `geometry`: the shape, the strides and the offset
std::string tensor_text(int key, int storage, std::int64_t dimensions,
                        const std::vector<std::int64_t>& geometry) {
  return pickled("(" + int_text(key) + int_text(storage) + class_text("FloatTensor") + "t") +
         numbers({dimensions}) + numbers(geometry);
}
std::string view_text(int key, int storage, int first, int length) {
  return pickled("](" + int_text(key) + int_text(storage) + int_text(first) + int_text(length) +
                 "ta");
}

// {'w': tensor 1 with four bytes [1, 2, 3, 4] as storage 2}, and what may be changed of it.
struct Parts {
  std::string object = pickled(
      "}U\x01wU\x01"
      "1Qs"s);
  std::string tensors = count_text(1) + tensor_text(1, 2, 2, {2, 2, 2, 1, 0});
  std::string storages = count_text(1) + storage_text(2, "ByteStorage", 4, "\1\2\3\4");
  std::string views = pickled("]");
};

std::string tar_of(const Parts& parts) {
  return tar_member("pickle", parts.object) + tar_member("tensors", parts.tensors) +
         tar_member("storages", parts.storages + parts.views) + tar_end();
}

Tree loaded_parts(const Parts& parts) {
  const TempDir dir;
  put_file(dir / "x.pt", tar_of(parts));
  return open_pytorch(dir / "x.pt")->load();
}

TEST(TarFile, HasTensorsStoragesAndViews) {
  EXPECT_EQ(loaded_parts({}).at("w"), Tree(Array::from<std::uint8_t>({1, 2, 3, 4}, {2, 2})));
  Parts parts;
  parts.views = view_text(3, 2, 1, 2);
  parts.object = pickled(
      "}U\x01wU\x01"
      "3Qs"s);  // the storage of the view
  EXPECT_EQ(loaded_parts(parts).at("w"), Tree(Array::from<std::uint8_t>({2, 3}, {2})));
  parts.object = pickled(
      "}U\x01wU\x01"
      "2Qs"s);
  EXPECT_EQ(loaded_parts(parts).at("w"), Tree(Array::from<std::uint8_t>({1, 2, 3, 4}, {4})));
  parts.object = pickled(
      "}U\x01wU\x01"
      "1Qs"s);
  parts.tensors = count_text(1) + tensor_text(1, 3, 1, {1, 1, 1});
  EXPECT_EQ(loaded_parts(parts).at("w"), Tree(Array::from<std::uint8_t>({3}, {1})));
}

TEST(TarFile, TheSeedIsRead) {
  const auto checkpoint = open(kTarSeed);
  EXPECT_EQ(checkpoint->info().layout, "PyTorch file of the tar form");
  const Tree tree = checkpoint->load();
  EXPECT_EQ(tree.at("w"), Tree(Array::from<float>({0, 1, 2, 3, 4, 5}, {2, 3})));
  EXPECT_EQ(tree.at("t"), Tree(Array::from<float>({0, 3, 1, 4, 2, 5}, {3, 2})));
  EXPECT_EQ(tree.at("part"), Tree(Array::from<float>({2, 3, 4}, {3})));
  EXPECT_EQ(tree.at("epoch"), Tree(3));
  const VerifyReport report = checkpoint->verify({});
  EXPECT_FALSE(report.damaged());
  EXPECT_EQ(report.unprotected.size(), 5U);
}

TEST(TarFile, TheFirstMemberDecides) {
  const TempDir dir;
  put_file(dir / "x", tar_of({}));
  EXPECT_EQ(detect_file(FileTree(), dir / "x"), Format::kPytorch);
  put_file(dir / "x", tar_member("h", "9 size=3\n", 'x') + tar_of({}));
  EXPECT_EQ(detect_file(FileTree(), dir / "x"), Format::kPytorch);
  put_file(dir / "x", tar_member("weights", "abc") + tar_of({}));
  EXPECT_THAT([&] { open(dir / "x"); }, FailsWith(Code::kInvalidArgument, "is a tar archive"));
}

struct BadParts {
  const char* name;
  std::function<void(Parts&)> apply;
  const char* expect;
  Code code = Code::kDataLoss;
};

// Errors of the whole file.
TEST(TarFile, SaysWhatIsWrong) {
  const BadParts table[] = {
      {"no number of storages", [](Parts& p) { p.storages = pickled("N"); },
       "storages: a size or an offset of a tensor is not an integer"},
      {"too many storages",
       [](Parts& p) { p.storages = count_text(2) + storage_text(2, "ByteStorage", 4, "\1\2\3\4"); },
       "storages: a storage is not described by 3 values"},
      {"a storage of two values",
       [](Parts& p) {
         p.storages = count_text(1) + pickled(
                                          "(K\x02U\x03"
                                          "cput"s);
       },
       "storages: a storage is not described by 3 values"},
      {"an unknown class",
       [](Parts& p) { p.storages = count_text(1) + storage_text(2, "OddStorage", 4, "1234"); },
       "torch.OddStorage is not a storage that Cairn knows", Code::kUnimplemented},
      {"a class that is a text",
       [](Parts& p) {
         p.storages = count_text(1) + pickled(
                                          "(K\x02U\x03"
                                          "cpuU\x01xt"s);
       },
       "the class of a storage is not a class"},
      {"a key that is None",
       [](Parts& p) {
         p.storages = count_text(1) + pickled(
                                          "(NU\x03"
                                          "cpu"s +
                                          class_text("X") + "t");
       },
       "a key is not an integer"},
      {"elements beyond the member",
       [](Parts& p) { p.storages = count_text(1) + storage_text(2, "LongStorage", 1LL << 61, ""); },
       "storage 2 has 2305843009213693952 elements of 8 bytes, but 4 bytes are left"},
      {"a negative size",
       [](Parts& p) { p.storages = count_text(1) + storage_text(2, "ByteStorage", -1, ""); },
       "storage 2 has 18446744073709551615 elements"},
      {"a storage twice",
       [](Parts& p) {
         const std::string one = storage_text(2, "ByteStorage", 4, "\1\2\3\4");
         p.storages = count_text(2) + one + one;
       },
       "two objects have the key 2"},
      {"no views", [](Parts& p) { p.views = pickled("N"); },
       "the views of storages are not a list"},
      {"a view of nothing", [](Parts& p) { p.views = view_text(3, 9, 0, 1); },
       "a view is of storage 9, which is missing"},
      {"a view that is too long", [](Parts& p) { p.views = view_text(3, 2, 2, 3); },
       "a view has the elements 2 to 5 of storage 2, which has 4"},
      {"a view that begins too late", [](Parts& p) { p.views = view_text(3, 2, 5, 0); },
       "a view has the elements 5 to 5 of storage 2, which has 4"},
      {"a view of three values", [](Parts& p) { p.views = pickled("](K\x03K\x02K\x01ta"); },
       "a view of a storage is not described by 4 values"},
      {"dimensions without end",
       [](Parts& p) { p.tensors = count_text(1) + tensor_text(1, 2, 1025, {}); },
       "tensors: tensor 1 has 1025 dimensions"},
      {"negative dimensions",
       [](Parts& p) { p.tensors = count_text(1) + tensor_text(1, 2, -1, {}); },
       "tensor 1 has 4294967295 dimensions"},
      {"a shape that ends", [](Parts& p) { p.tensors = count_text(1) + tensor_text(1, 2, 2, {2}); },
       "a tensor takes 40 bytes, but 8 are left"},
      {"a tensor with the key of a storage",
       [](Parts& p) { p.tensors = count_text(1) + tensor_text(2, 2, 0, {0}); },
       "two objects have the key 2"},
      {"a tensor of nothing",
       [](Parts& p) {
         p.tensors = count_text(1) + tensor_text(1, 9, 1, {4, 1, 0});
       },
       "pickle: 9 is the key of an object, which is missing"},
      {"an object that is missing",
       [](Parts& p) {
         p.object = pickled(
             "}U\x01wU\x01"
             "7Qs"s);
       },
       "pickle: 7 is the key of an object, which is missing"},
      {"a persistent id that is a dict", [](Parts& p) { p.object = pickled("}U\x01w}Qs"); },
       "a key is not an integer"},
      {"an object that ends", [](Parts& p) { p.object = "\x80\x02}"; }, "pickle: "},
  };
  EXPECT_NO_THROW(loaded_parts({}));
  for (const BadParts& bad : table) {
    SCOPED_TRACE(bad.name);
    Parts parts;
    bad.apply(parts);
    EXPECT_THAT([&] { loaded_parts(parts); }, FailsWith(bad.code, bad.expect));
  }
}

// Errors of one tensor.
TEST(TarFile, ATensorThatReachesBeyondItsStorageIsDamaged) {
  const BadParts table[] = {
      {"beyond the storage",
       [](Parts& p) {
         p.tensors = count_text(1) + tensor_text(1, 2, 1, {4, 1, 1});
       },
       "it ends at element 5 of its storage \"2\", which has 4"},
      {"beyond a view of it",
       [](Parts& p) {
         p.views = view_text(3, 2, 1, 2);
         p.tensors = count_text(1) + tensor_text(1, 3, 1, {3, 1, 0});
       },
       "it ends at element 3 of a view of its storage \"2\", which has 2"},
      {"a negative stride",
       [](Parts& p) {
         p.tensors = count_text(1) + tensor_text(1, 2, 1, {2, -1, 1});
       },
       "is not an integer from 0"},
      {"no memory has as many",
       [](Parts& p) {
         p.tensors = count_text(1) + tensor_text(1, 2, 2, {1LL << 40, 1LL << 40, 0, 0, 0});
       },
       "more elements than any memory"},
  };
  for (const BadParts& bad : table) {
    SCOPED_TRACE(bad.name);
    Parts parts;
    bad.apply(parts);
    EXPECT_THAT([&] { loaded_parts(parts); }, FailsWith(bad.code, bad.expect));
  }
}

TEST(TarFile, NamesWhatPyTorchDoesNotRead) {
  const TempDir dir;
  Parts parts;
  parts.views += "more";
  put_file(dir / "x.pt", tar_member("mine", "x") + tar_of(parts) + "rest");
  EXPECT_THAT(open_pytorch(dir / "x.pt")->info().warnings,
              ElementsAre(HasSubstr("4 bytes follow the values of the member storages"),
                          HasSubstr("its member \"mine\" is not read"),
                          HasSubstr("1028 bytes follow the end of the archive")));
}

TEST(TarFile, ClassesInAnyPickleAreNoted) {
  const TempDir dir;
  Parts parts;
  parts.views = pickled("cos\nsystem\n0]");
  put_file(dir / "x.pt", tar_of(parts));
  const VerifyReport report = open_pytorch(dir / "x.pt")->verify({});
  ASSERT_EQ(report.findings.size(), 1U);
  EXPECT_THAT(report.findings[0].message, HasSubstr("may run any code: it imports os.system"));
}

TEST(TarFile, EveryCutIsNoticed) {
  const TempDir dir;
  const std::string whole = tar_of({});
  const std::size_t end = whole.size() - tar_end().size();
  for (std::size_t size = 0; size < whole.size(); ++size) {
    put_file(dir / "x.pt", whole.substr(0, size));
    const auto opened = try_call([&] { return open_pytorch(dir / "x.pt")->load(); });
    EXPECT_EQ(opened.ok(), size >= end + testing::kTarBlockSize) << size;
  }
}

TEST(TarFile, DumpShowsItsPickles) {
  const TempDir dir;
  put_file(dir / "x.pt", tar_of({}));
  const std::string text = dump_file({.file = dir / "x.pt"});
  EXPECT_THAT(text, HasSubstr("\"member\": \"storages\""));
  EXPECT_THAT(text, HasSubstr("\"$persistent\": \"1\""));
  EXPECT_THAT(text, HasSubstr("\"torch.ByteStorage\""));
}

}  // namespace
}  // namespace cairn
