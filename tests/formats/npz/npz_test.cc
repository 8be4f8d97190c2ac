// npz_test.cc -- headers as NumPy writes them, and archives whose every field a reader relies on is
// right.
#include <cairn/base/byte_io.h>
#include <cairn/base/checksum.h>
#include <cairn/npz.h>

#include "tests/formats/golden.h"
#include "tests/support/matchers.h"
#include "tests/support/temp_dir.h"

namespace cairn {
namespace {

using testing::FailsWith;
using testing::file_names;
using testing::MemorySource;
using testing::TempDir;

TEST(Npy, WritesTheHeadersOfNumpy) {
  const Json rows = testing::golden_json("npy/numpy-2.4.6/headers.json");
  ASSERT_GE(rows.as_array()->size(), 100U);
  for (const Json& row : *rows.as_array()) {
    const std::string& dtype = testing::text_of(row, "dtype");
    const Shape shape = testing::shape_of(row);
    std::string expected;  // the golden file holds bytes as characters up to U+00FF
    for (const char c : testing::text_of(row, "header"))
      if (c != '\xc2') expected += c;
    // NumPy writes "<f1" for this one type, which NumPy itself cannot read: ours is the spelling of
    // its siblings.
    if (const auto at = expected.find("'<f1'"); at != std::string::npos) {
      EXPECT_EQ(dtype, "float8_e5m2");
      expected.replace(at, 5, "'<V1'");
    }
    const Bytes header = npy_header(*dtype_from_name(dtype), shape);
    EXPECT_EQ(as_text(header), expected) << dtype << " " << shape_text(shape);
    EXPECT_EQ(header.size() % 64, 0U);
  }
}

TEST(Npy, HasAVersionForLongHeadersAndNoneForOpaqueElements) {
  const Bytes header = npy_header(DType::kInt8, Shape(30'000, 1));
  EXPECT_EQ(as_text(header).substr(0, 8), std::string_view("\x93NUMPY\2\0", 8));
  EXPECT_EQ(header.size() % 64, 0U);
  ByteReader in(header);
  in.take(8);
  const std::uint32_t length = in.u32();
  EXPECT_EQ(length, in.remaining());
  EXPECT_THAT([&] { npy_descr(DType::kOpaque); }, FailsWith(Code::kInvalidArgument));
}

struct ZipMember {
  std::string name;
  Bytes content;
};

// Reads an archive as a strict reader does: end record, central directory, local headers,
// checksums.
std::vector<ZipMember> read_zip(ByteView file) {
  ByteReader end(file.subspan(file.size() - 22));
  EXPECT_EQ(end.u32(), 0x06054b50U);
  end.take(4);
  const std::uint16_t here = end.u16(), count = end.u16();
  EXPECT_EQ(here, count);
  const std::uint32_t size = end.u32(), start = end.u32();
  EXPECT_EQ(start + size + 22, file.size());
  std::vector<ZipMember> members;
  ByteReader in(file.subspan(start, size));
  std::uint64_t next = 0;
  for (int i = 0; i < count; ++i) {
    EXPECT_EQ(in.u32(), 0x02014b50U);
    in.take(4);
    const std::uint16_t flags = in.u16(), method = in.u16();
    EXPECT_EQ(method, 0);
    EXPECT_EQ(in.u32(), 0x00210000U);  // midnight, 1980-01-01
    const std::uint32_t crc = in.u32(), stored = in.u32(), length = in.u32();
    EXPECT_EQ(stored, length);
    const std::uint16_t name_length = in.u16(), extra = in.u16();
    in.take(10);
    const std::uint32_t offset = in.u32();
    const std::string name(in.text(name_length));
    in.take(extra);
    EXPECT_EQ(offset, next);
    ByteReader local(file.subspan(offset));
    EXPECT_EQ(local.u32(), 0x04034b50U);
    local.take(2);
    EXPECT_EQ(local.u16(), flags);
    local.take(6);
    EXPECT_EQ(local.u32(), crc);
    EXPECT_EQ(local.u32(), length);
    EXPECT_EQ(local.u32(), length);
    EXPECT_EQ(local.u16(), name_length);
    const std::uint16_t local_extra = local.u16();
    EXPECT_EQ(local.text(name_length), name);
    local.take(local_extra);
    members.push_back({name, testing::to_bytes(local.take(length))});
    EXPECT_EQ(crc32(members.back().content), crc) << name;
    next = offset + local.offset();
  }
  EXPECT_EQ(next, start);
  in.finish();
  return members;
}

TEST(Npz, WritesMembersThatAStrictReaderAccepts) {
  MemorySource source;
  for (int i = 0; i < kDTypeCount; ++i) {
    const auto dtype = static_cast<DType>(i);
    source.add_pattern(std::string(dtype_name(dtype)), dtype, {3, 5}, static_cast<std::size_t>(i));
  }
  source.add_pattern("", DType::kInt8, {}, 1);
  source.add_pattern("a/b.c \u00e9", DType::kFloat32, {0, 4}, 1);
  // several parts, whose checksums are combined
  source.add_pattern("large", DType::kUint8, {5, 1'000'003}, 2);
  TempDir dir;
  Bytes first;
  for (const std::uint64_t memory : {std::uint64_t{1} << 30U, std::uint64_t{400'000}}) {
    write_npz(dir / "x.npz", source.tensors, source.fetch(),
              {.if_exists = IfExists::kReplace, .resources = {.memory = memory}});
    const Bytes file = read_file(dir / "x.npz");
    const std::vector<ZipMember> members = read_zip(file);
    ASSERT_EQ(members.size(), source.tensors.size());
    for (std::size_t i = 0; i < members.size(); ++i) {
      EXPECT_EQ(members[i].name, source.tensors[i].name + ".npy");
      Bytes expected = npy_header(source.tensors[i].dtype, source.tensors[i].shape);
      expected.insert(expected.end(), source.values[i].begin(), source.values[i].end());
      EXPECT_EQ(members[i].content, expected) << members[i].name;
    }
    if (first.empty()) first = file;
    EXPECT_EQ(file, first) << "equal contents make equal files";
  }
  EXPECT_EQ(file_names(dir.path()), "x.npz ");
}

TEST(Npz, CountsMoreThan65535MembersIn64Bits) {
  MemorySource source;
  for (int i = 0; i < 65'536; ++i) source.add_pattern(std::to_string(i), DType::kInt8, {1}, 0);
  TempDir dir;
  write_npz(dir / "x.npz", source.tensors, source.fetch(), {});
  const Bytes file = read_file(dir / "x.npz");
  ByteReader end(ByteView(file).subspan(file.size() - 22 - 20 - 56));
  EXPECT_EQ(end.u32(), 0x06064b50U);
  EXPECT_EQ(end.u64(), 44U);
  end.take(12);
  EXPECT_EQ(end.u64(), 65'536U);
  EXPECT_EQ(end.u64(), 65'536U);
  const std::uint64_t size = end.u64(), start = end.u64();
  EXPECT_EQ(start + size + 56 + 20 + 22, file.size());
  EXPECT_EQ(end.u32(), 0x07064b50U);
  end.take(4);
  EXPECT_EQ(end.u64(), start + size);
  EXPECT_EQ(end.u32(), 1U);
  EXPECT_EQ(end.u32(), 0x06054b50U);
  end.take(4);
  EXPECT_EQ(end.u16(), 0xffff);
}

TEST(Npz, RefusesNamesThatAZipCannotHoldAndTargetsThatExist) {
  TempDir dir;
  const auto write = [&](std::vector<std::string> names) {
    MemorySource source;
    for (const auto& name : names) source.add_pattern(name, DType::kInt8, {1}, 0);
    write_npz(dir / "x.npz", source.tensors, source.fetch(), {});
  };
  EXPECT_THAT([&] { write({"\xff"}); }, FailsWith(Code::kInvalidArgument, "UTF-8"));
  EXPECT_THAT([&] { write({std::string("a\0b", 3)}); }, FailsWith(Code::kInvalidArgument, "NUL"));
  EXPECT_THAT([&] { write({std::string(70'000, 'x')}); },
              FailsWith(Code::kInvalidArgument, "too long"));
  EXPECT_THAT(
      [&] {
        write({"a", "b", "a"});
      },
      FailsWith(Code::kInvalidArgument, "two tensors are named \"a\""));
  EXPECT_EQ(file_names(dir.path()), "");
  write({"a"});
  EXPECT_THAT([&] { write({"a"}); }, FailsWith(Code::kAlreadyExists));
}

TEST(Npz, WritesAnEmptyArchive) {
  TempDir dir;
  write_npz(dir / "x.npz", {}, [](auto) { FAIL() << "nothing to fetch"; }, {});
  EXPECT_TRUE(read_zip(read_file(dir / "x.npz")).empty());
}

TEST(Crc32, CombinesWhatLiesBehindEachOther) {
  EXPECT_EQ(crc32(as_bytes("123456789")), 0xcbf43926U);
  EXPECT_EQ(crc32({}), 0U);
  std::string text;
  for (int i = 0; i < 1000; ++i) text += static_cast<char>(i * 7 % 251);
  const ByteView all = as_bytes(text);
  for (const std::size_t n : {0U, 1U, 3U, 64U, 500U, 999U, 1000U})
    EXPECT_EQ(crc32_combine(crc32(all.first(n)), crc32(all.subspan(n)), all.size() - n), crc32(all))
        << n;
}

}  // namespace
}  // namespace cairn
