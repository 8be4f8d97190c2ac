// reader_test.cc -- what NumPy wrote, of every type and in every order; any box of it; and archives
// that are damaged or lie.
#include <cairn/array/box.h>
#include <cairn/base/byte_io.h>
#include <cairn/base/checksum.h>
#include <cairn/checkpoint.h>
#include <cairn/formats/detect.h>
#include <cairn/formats/npz/npy_header.h>
#include <cairn/formats/zip/zip_directory.h>
#include <cairn/npz.h>
#include <cairn/tree.h>
#include <gmock/gmock.h>

#include <random>

#include "tests/formats/golden.h"
#include "tests/support/damage.h"
#include "tests/support/matchers.h"
#include "tests/support/temp_dir.h"

namespace cairn {
namespace {

using testing::Damage;
using testing::FailsWith;
using testing::golden;
using ::testing::HasSubstr;
using testing::little_endian;
using testing::MemorySource;
using testing::put_file;
using testing::read_whole;
using testing::TempDir;

const std::string kNpzGolden = "npz/numpy-2.4.6/";

std::string type_name(const TensorInfo& info) { return info.dtype_name; }

TEST(NpzReader, ReadsEveryTypeAndOrderThatNumpyWrote) {
  for (const std::string name : {"stored.npz", "deflated.npz"}) {
    const auto checkpoint = open_npz(golden(kNpzGolden + name));
    EXPECT_EQ(checkpoint->info().format, "npz");
    const Json expected = testing::golden_json(kNpzGolden + "expected.json");
    ASSERT_EQ(checkpoint->tensors().size(), expected.as_array()->size() + 2)
        << "and two that are refused";
    for (const Json& row : *expected.as_array()) {
      const std::string& tensor = testing::text_of(row, "name");
      SCOPED_TRACE(name + ": " + tensor);
      const std::size_t index = checkpoint->index(tensor);
      const TensorInfo& info = checkpoint->tensors()[index];
      EXPECT_EQ(type_name(info), testing::text_of(row, "dtype"));
      EXPECT_EQ(info.shape, testing::shape_of(row));
      EXPECT_EQ(info.path, (KeyPath{{tensor, KeyType::kDict}}));
      const Bytes bytes = testing::from_hex(testing::text_of(row, "hex"));
      EXPECT_EQ(info.nbytes, bytes.size());
      EXPECT_EQ(read_whole(*checkpoint, index), bytes);
      if (const auto view = checkpoint->try_view(index)) {
        EXPECT_EQ(little_endian(testing::to_bytes(view->bytes()), info.dtype), bytes);
      }
    }
    EXPECT_THAT([&] { read_whole(*checkpoint, checkpoint->index("object")); },
                FailsWith(Code::kUnimplemented, "object: Python objects"));
    EXPECT_THAT([&] { read_whole(*checkpoint, checkpoint->index("fields")); },
                FailsWith(Code::kUnimplemented, "fields: elements with fields"));
    EXPECT_EQ(checkpoint->info("fields").dtype_name, "[('x', '<f4'), ('y', '<i2', (2,))]");
    const VerifyReport report = checkpoint->verify({});
    // numpy.load refuses the pickled objects, unless it is told to read them.
    ASSERT_EQ(report.findings.size(), 1U);
    EXPECT_EQ(report.findings[0].severity, Severity::kNotChecked);
    EXPECT_EQ(report.findings[0].tensor, "object");
    EXPECT_TRUE(report.unprotected.empty());
  }
}

TEST(NpzReader, ReadsMembersWhoseSizesLieBehindThem) {
  const auto checkpoint = open_npz(golden(kNpzGolden + "piped.npz"));
  EXPECT_EQ(checkpoint->read("a").shape(), Shape({6}));
  EXPECT_FALSE(checkpoint->verify({}).damaged());
}

TEST(NpzReader, ReadsSingleFilesOfAllVersions) {
  for (const char* name : {"version1", "version2", "version3"}) {
    const auto checkpoint = open_npy(golden(kNpzGolden + name + ".npy"));
    ASSERT_EQ(checkpoint->tensors().size(), 1U);
    EXPECT_EQ(checkpoint->tensors()[0].name, name);
    const Array array = checkpoint->read(name);
    EXPECT_EQ(array.dtype(), DType::kUint16);
    EXPECT_EQ(array.shape(), Shape({2, 3}));
    const Bytes bytes = read_whole(*checkpoint, 0);
    for (int i = 0; i < 6; ++i) EXPECT_EQ(bytes[static_cast<std::size_t>(2 * i)], std::byte(i));
    EXPECT_EQ(checkpoint->verify({}).unprotected.size(), 1U);
  }
}

// The archive's arrays, transposed and cut by hand from the C-order bytes.
Bytes cut(const Bytes& whole, const TensorInfo& info, const Box& box) {
  Bytes out(static_cast<std::size_t>(element_count(box.shape)) * info.element_size);
  const ArrayView from{whole.data(), info.dtype, info.element_size, info.shape,
                       c_strides(info.shape, info.element_size)};
  const MutableArrayView to{out.data(), info.dtype, info.element_size, box.shape,
                            c_strides(box.shape, info.element_size)};
  copy_elements(subview(from, box), to);
  return out;
}

TEST(NpzReader, ReadsAnyBoxInAnyOrder) {
  std::mt19937 random(5);
  for (const std::string name : {"stored.npz", "deflated.npz"}) {
    const auto checkpoint = open_npz(golden(kNpzGolden + name));
    for (int round = 0; round < 400; ++round) {
      const std::size_t index = random() % checkpoint->tensors().size();
      const TensorInfo& info = checkpoint->tensors()[index];
      if (info.name == "object" || info.name == "fields") continue;
      Box box = Box::whole(info.shape);
      for (std::size_t d = 0; d < box.rank(); ++d) {
        box.origin[d] =
            static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(info.shape[d] + 1));
        box.shape[d] = static_cast<std::int64_t>(
            random() % static_cast<std::uint64_t>(info.shape[d] - box.origin[d] + 1));
      }
      Bytes out(static_cast<std::size_t>(element_count(box.shape)) * info.element_size);
      const ReadRequest request{index,
                                box,
                                {out.data(), info.dtype, info.element_size, box.shape,
                                 c_strides(box.shape, info.element_size)}};
      checkpoint->read({&request, 1}, {});
      EXPECT_EQ(little_endian(out, info.dtype), cut(read_whole(*checkpoint, index), info, box))
          << name << " " << info.name << box_text(box);
    }
  }
}

TEST(NpzReader, ReadsBackWhatCairnWrites) {
  MemorySource source;
  for (int i = 0; i < kDTypeCount; ++i) {
    const auto dtype = static_cast<DType>(i);
    source.add_pattern(std::string(dtype_name(dtype)), dtype, {3, 5}, static_cast<std::size_t>(i));
  }
  source.add_pattern("", DType::kInt8, {}, 1);
  // several pieces, whose checksums are combined
  source.add_pattern("large", DType::kUint8, {5, 4'000'003}, 2);
  const TempDir dir;
  write_npz(dir / "x.npz", source.tensors, source.fetch(), {});
  const auto checkpoint = open_npz(dir / "x.npz");
  ASSERT_EQ(checkpoint->tensors().size(), source.tensors.size());
  for (std::size_t i = 0; i < source.tensors.size(); ++i) {
    const TensorInfo& info = checkpoint->tensors()[i];
    EXPECT_EQ(info.name, source.tensors[i].name);
    EXPECT_EQ(read_whole(*checkpoint, i), source.values[i]) << info.name;
    // NumPy has no names for the small types; a file says only how large they are.
    const std::string descr = npy_descr(source.tensors[i].dtype);
    EXPECT_EQ(type_name(info), descr == "<V1" ? descr : dtype_name(source.tensors[i].dtype));
  }
  EXPECT_FALSE(checkpoint->verify({}).damaged());
}

// The first element of a vector.
Bytes read_first(const Checkpoint& checkpoint, std::size_t index) {
  const TensorInfo& info = checkpoint.tensors()[index];
  Array array = Array::allocate(info.dtype, info.element_size, {1});
  const ReadRequest request{index, {{0}, {1}}, array.mutable_view()};
  checkpoint.read({&request, 1}, {});
  return testing::to_bytes(array.bytes());
}

// One bit of a value has flipped: no reader misses it, of the whole, of a part or in place.
TEST(NpzReader, NoticesEveryFlippedBitOfValues) {
  const TempDir dir;
  MemorySource source;
  source.add_pattern("a", DType::kUint8, {64}, 1);  // bytes are aligned wherever they are
  write_npz(dir / "x.npz", source.tensors, source.fetch(), {});
  const Bytes good = read_file(dir / "x.npz");
  const auto values = static_cast<std::size_t>(
      std::search(good.begin(), good.end(), source.values[0].begin(), source.values[0].end()) -
      good.begin());
  const std::string message =
      "a: " + (dir / "bad.npz") + ", byte " + std::to_string(values) + ": its bytes are damaged";
  for (std::size_t bit = 8 * values; bit < 8 * (values + 64); ++bit) {
    put_file(dir / "bad.npz", testing::with_bit_flipped(good, bit));
    const auto bad = open_npz(dir / "bad.npz");
    EXPECT_THAT([&] { read_whole(*bad, 0); }, FailsWith(Code::kDataLoss, message)) << bit;
    EXPECT_THAT([&] { read_first(*bad, 0); }, FailsWith(Code::kDataLoss, message)) << bit;
    EXPECT_THAT([&] { (void)bad->try_view(0); }, FailsWith(Code::kDataLoss, message)) << bit;
    const VerifyReport report = bad->verify({});
    ASSERT_EQ(report.findings.size(), 1U) << bit;
    EXPECT_EQ(report.findings[0].tensor, "a");
    EXPECT_EQ(report.findings[0].offset, values);
  }
}

// Whatever bit of a small archive flips, and wherever it is cut: an Error, or the same bytes.
TEST(NpzReader, SurvivesEveryFlippedBitAndTruncation) {
  const TempDir dir = TempDir::in_memory();
  for (const std::string name : {"small_stored.npz", "small_deflated.npz"}) {
    const Bytes good = read_file(golden(kNpzGolden + name));
    const auto whole = open_npz(golden(kNpzGolden + name));
    const Bytes expected = read_whole(*whole, 0);
    const auto try_all = [&](ByteView bad, const std::string& what) {
      put_file(dir / "bad.npz", bad);
      try {
        const auto checkpoint = open_npz(dir / "bad.npz");
        const bool damaged = checkpoint->verify({}).damaged();
        for (std::size_t i = 0; i < checkpoint->tensors().size(); ++i) {
          const TensorInfo& info = checkpoint->tensors()[i];
          if (!info.error.empty()) continue;
          const auto first = try_call([&] { return read_first(*checkpoint, i); });
          const Bytes bytes = read_whole(*checkpoint, i);
          EXPECT_TRUE(first.ok() &&
                      std::equal(first.value().begin(), first.value().end(), bytes.begin()));
          // The checksum covers the header, so only what it does not cover may have changed: the
          // name.
          EXPECT_TRUE(bytes == expected || damaged) << what;
        }
      } catch (const Error&) {
        return;
      }
      EXPECT_EQ(bad.size(), good.size()) << what << " was accepted";
    };
    testing::for_each_bit_flip(good, try_all);
    testing::for_each_truncation(good, try_all);
  }
}

// ---- archives made by hand ----

struct Made {
  std::string name = "a.npy";
  Bytes content;
  std::uint16_t method = 0;
  std::uint16_t flags = 0;
};

Bytes array_file(std::string_view dict, ByteView values) {
  ByteWriter out;
  out.text(kNpyMagic)
      .u8(1)
      .u8(0)
      .u16(static_cast<std::uint16_t>(dict.size()))
      .text(dict)
      .bytes(values);
  return std::move(out).take();
}

const std::string kDict = "{'descr': '|u1', 'fortran_order': False, 'shape': (4,), }";

Made good_member(const std::string& name = "a.npy") {
  return {.name = name, .content = array_file(kDict, as_bytes("1234"))};
}

Bytes archive_of(const std::vector<Made>& members) {
  ByteWriter out, central;
  for (const Made& m : members) {
    const auto at = static_cast<std::uint32_t>(out.size());
    const auto size = static_cast<std::uint32_t>(m.content.size());
    const auto name = static_cast<std::uint16_t>(m.name.size());
    out.u32(0x04034b50)
        .u16(20)
        .u16(m.flags)
        .u16(m.method)
        .u32(0)
        .u32(crc32(m.content))
        .u32(size)
        .u32(size)
        .u16(name)
        .u16(0);
    out.text(m.name).bytes(m.content);
    central.u32(0x02014b50)
        .u16(20)
        .u16(20)
        .u16(m.flags)
        .u16(m.method)
        .u32(0)
        .u32(crc32(m.content))
        .u32(size)
        .u32(size);
    central.u16(name).u16(0).u16(0).u16(0).u16(0).u32(0).u32(at).text(m.name);
  }
  const auto start = static_cast<std::uint32_t>(out.size());
  const auto count = static_cast<std::uint16_t>(members.size());
  out.bytes(central.view());
  out.u32(0x06054b50)
      .u16(0)
      .u16(0)
      .u16(count)
      .u16(count)
      .u32(static_cast<std::uint32_t>(central.size()))
      .u32(start)
      .u16(0);
  return std::move(out).take();
}

void open_bytes(ByteView bytes) {
  const TempDir dir = TempDir::in_memory();
  put_file(dir / "x.npz", bytes);
  const auto checkpoint = open_npz(dir / "x.npz");
  for (std::size_t i = 0; i < checkpoint->tensors().size(); ++i) read_whole(*checkpoint, i);
}

TEST(NpzReader, RefusesArchivesThatLie) {
  const Bytes good = archive_of({good_member("a.npy"), good_member("b.npy")});
  const std::size_t end = good.size() - 22;
  std::size_t first = end, second = end;  // central headers
  for (std::size_t i = 0; i + 4 < end; ++i)
    if (as_text(ByteView(good).subspan(i, 4)) == "PK\x01\x02")
      first == end ? first = i : second = i;
  const auto put = [](std::size_t at, auto value) {
    return [=](Bytes& b) { testing::put_at(b, at, value); };
  };
  const Damage table[] = {
      {"empty", [](Bytes& b) { b.clear(); }, Code::kDataLoss, "is empty (0 bytes)"},
      {"no end", [&](Bytes& b) { b.resize(end); }, Code::kDataLoss, "the end record is missing"},
      {"junk behind", [](Bytes& b) { b.push_back(std::byte{0}); }, Code::kDataLoss,
       "the end record is missing"},
      {"junk before", [](Bytes& b) { b.insert(b.begin(), std::byte{0}); }, Code::kDataLoss,
       "does not end where the end record is"},
      {"another disk", put(end + 4, std::uint16_t{1}), Code::kDataLoss,
       "one part of a multi-part archive"},
      {"counts differ", put(end + 8, std::uint16_t{1}), Code::kDataLoss,
       "one part of a multi-part archive"},
      {"too many members", [&](Bytes& b) { testing::put_at(b, end + 8, 0x40004000U); },
       Code::kDataLoss, "do not fit in a directory"},
      {"one too few", [&](Bytes& b) { testing::put_at(b, end + 8, 0x00010001U); }, Code::kDataLoss,
       "are left over"},
      {"directory too long", put(end + 12, std::uint32_t{0x7fffffff}), Code::kDataLoss,
       "does not end where"},
      {"directory elsewhere", put(end + 16, std::uint32_t{3}), Code::kDataLoss,
       "does not end where"},
      {"no central header", put(first, std::uint32_t{0}), Code::kDataLoss,
       "member 0: missing member header"},
      {"long name", put(first + 28, std::uint16_t{60000}), Code::kDataLoss, "unexpected end"},
      {"stored in fewer bytes", put(first + 20, std::uint32_t{3}), Code::kDataLoss,
       "are stored for"},
      {"header outside", put(first + 42, std::uint32_t{0x7ffffff0}), Code::kDataLoss,
       "no room for it"},
      {"header in the middle", put(first + 42, std::uint32_t{3}), Code::kDataLoss, "it is missing"},
      {"the other's header", put(first + 42, static_cast<std::uint32_t>(first / 2)),
       Code::kDataLoss, "its name differs from the directory's"},
      {"checksum differs", put(first + 16, std::uint32_t{1}), Code::kDataLoss,
       "differ from the directory's"},
      {"method differs", put(8, std::uint16_t{8}), Code::kDataLoss,
       "its compression method differs"},
      {"extra area too long", put(28, std::uint16_t{50000}), Code::kDataLoss,
       "reaches into the directory"},
      {"zip64 field missing", put(first + 24, ~std::uint32_t{0}), Code::kDataLoss,
       "unexpected end"},
      {"inflated beyond belief",
       [&](Bytes& b) {
         testing::put_at(b, first + 10, std::uint16_t{8});
         testing::put_at(b, first + 24, std::uint32_t{0x7fffffff});
       },
       Code::kDataLoss, "cannot decode to"},
      {"same name", [&](Bytes& b) { b[second + 46] = b[first + 46]; }, Code::kDataLoss,
       "two members are named"},
  };
  testing::check_damages(good, table, open_bytes);
}

TEST(NpzReader, RefusesOverlapsNamesAndMethods) {
  Bytes twice = archive_of({good_member("a.npy"), good_member("b.npy")});
  // The first member is said to contain the second.
  {
    const Made inner = good_member("b.npy");
    const Bytes whole = archive_of({inner});
    Made outer{.name = "a.npy"};
    const ByteView local = ByteView(whole).first(30 + inner.name.size() + inner.content.size());
    const std::string dict = "{'descr': '|u1', 'fortran_order': False, 'shape': (" +
                             std::to_string(local.size()) + ",), }";
    outer.content = array_file(dict, local);
    Bytes bytes = archive_of({outer, inner});
    const std::string mark("PK\x01\x02");
    const auto text = as_text(bytes);
    const std::size_t central = text.find(mark, text.find(mark) + 1);
    testing::put_at(bytes, central + 42,
                    static_cast<std::uint32_t>(30 + 5 + outer.content.size() - local.size()));
    EXPECT_THAT([&] { open_bytes(bytes); }, FailsWith(Code::kDataLoss, "overlap"));
  }
  EXPECT_THAT([&] { open_bytes(archive_of({good_member(std::string("a\0.npy", 6))})); },
              FailsWith(Code::kDataLoss, "the member's name"));
  EXPECT_THAT([&] { open_bytes(archive_of({good_member("\xe9.npy")})); },
              FailsWith(Code::kDataLoss, "unknown encoding"));
  EXPECT_THAT(
      [&] {
        open_bytes(archive_of({good_member("a.npy"), good_member("a")}));
      },
      FailsWith(Code::kDataLoss, "named \"a\""));
  Made lzma = good_member();
  lzma.method = 14;
  EXPECT_THAT([&] { open_bytes(archive_of({lzma})); },
              FailsWith(Code::kUnimplemented, "a: it is compressed by zip's method 14"));
  Made secret = good_member();
  secret.flags = 1;
  EXPECT_THAT([&] { open_bytes(archive_of({secret})); },
              FailsWith(Code::kUnimplemented, "a: the member is encrypted"));
  Made text{.name = "readme.txt", .content = testing::to_bytes(as_bytes("hello"))};
  const TempDir dir = TempDir::in_memory();
  put_file(dir / "x.npz", archive_of({text, good_member()}));
  const auto checkpoint = open_npz(dir / "x.npz");
  EXPECT_EQ(checkpoint->tensors().size(), 1U);
  const VerifyReport report = checkpoint->verify({});
  ASSERT_EQ(report.findings.size(), 1U);
  EXPECT_EQ(report.findings[0].message, "member \"readme.txt\" is not an array");
  EXPECT_FALSE(report.damaged());
}

TEST(NpzReader, OneBrokenArrayLeavesTheOthers) {
  const TempDir dir = TempDir::in_memory();
  Made broken = good_member("b.npy");
  broken.content[3] = std::byte{'x'};
  put_file(dir / "x.npz", archive_of({good_member("a.npy"), broken}));
  const auto checkpoint = open_npz(dir / "x.npz");
  EXPECT_EQ(as_text(checkpoint->read("a").bytes()), "1234");
  EXPECT_THAT([&] { (void)checkpoint->read("b"); },
              FailsWith(Code::kDataLoss, "b: npy header: it does not begin with"));
  const VerifyReport report = checkpoint->verify({});
  ASSERT_EQ(report.findings.size(), 1U);
  EXPECT_EQ(report.findings[0].tensor, "b");
}

// In version 1 the length field ends before the bytes that tell the length of any version.
TEST(NpzReader, RefusesAHeaderThatEndsBeforeItsDict) {
  const TempDir dir = TempDir::in_memory();
  for (const std::string_view dict : {"", "{"}) {
    SCOPED_TRACE(dict);
    put_file(dir / "x.npy", array_file(dict, as_bytes("1234")));
    EXPECT_THAT([&] { (void)open_npy(dir / "x.npy"); },
                FailsWith(Code::kDataLoss, "npy header: its length field is"));
    Made broken = good_member("b.npy");
    broken.content = array_file(dict, as_bytes("1234"));
    put_file(dir / "x.npz", archive_of({good_member("a.npy"), broken}));
    const auto checkpoint = open_npz(dir / "x.npz");
    EXPECT_EQ(as_text(checkpoint->read("a").bytes()), "1234");
    EXPECT_THAT([&] { (void)checkpoint->read("b"); },
                FailsWith(Code::kDataLoss, "b: npy header: its length field is"));
    EXPECT_TRUE(checkpoint->verify({}).damaged());
  }
}

TEST(NpyHeader, RefusesWhatNumpyNeverWrote) {
  const auto with = [](const std::string& dict) {
    return [=] { (void)decode_npy_header(array_file(dict, {})); };
  };
  const auto member = [](const std::string& descr, const std::string& order,
                         const std::string& shape) {
    return "{'descr': " + descr + ", 'fortran_order': " + order + ", 'shape': " + shape + "}";
  };
  EXPECT_EQ(decode_npy_header(array_file(member("'<i4'", "True", "(3L, 2)"), {})).shape,
            Shape({3, 2}))
      << "Python 2";
  EXPECT_EQ(decode_npy_header(
                array_file("{\"shape\":(7,),\"descr\":\">f8\",\"fortran_order\":False}  \n", {}))
                .nbytes,
            56U);
  const std::pair<std::string, const char*> table[] = {
      {"", "its length field is 0 bytes, too short for a dict"},
      {"{", "its length field is 1 bytes, too short for a dict"},
      {"[]", "expected '{'"},
      {"{ ", "a quoted string"},
      {"{}", "lacks"},
      {kDict + "x", "unexpected text after the dict"},
      {kDict.substr(0, 36), "is not True or False"},
      {member("'<i4'", "true", "(1,)"), "is not True or False"},
      {member("'<i4'", "False", "(1)"), "not a tuple"},
      {member("'<i4'", "False", "(-1,)"), "an extent of 'shape'"},
      {member("'<i4'", "False", "(1,,2)"), "an extent of 'shape'"},
      {member("'<i4'", "False", "(99999999999999999999,)"), "an extent of 'shape'"},
      {member("'<i4'", "False", "(4611686018427387904, 2)"), "larger than any file"},
      {member("'<i4'", "False", "(4611686018427387904,)"), "larger than any file"},
      {member("'<i4'", "False", "[1]"), "expected '('"},
      {member("'<q4'", "False", "(1,)"), "is not an element type"},
      {member("'<i3'", "False", "(1,)"), "is not an element type"},
      {member("'<'", "False", "(1,)"), "is not an element type"},
      {member("''", "False", "(1,)"), "is not an element type"},
      {member("'|S99999999999999999999'", "False", "(1,)"), "is not an element type"},
      {member("[('x', '<f4')", "False", "(1,)"), "no end"},
      {member("'<i4', 'descr': '<i4'", "False", "(1,)"), "duplicate member"},
      {member("'<i4', 'x': '<i4'", "False", "(1,)"), "unknown member"},
      {member("'a\\\\'", "False", "(1,)"), "escapes"},
  };
  for (const auto& [dict, message] : table)
    EXPECT_THAT(with(dict), FailsWith(Code::kDataLoss, message)) << dict;
  std::string rank = "(";
  for (int i = 0; i < 65; ++i) rank += "1,";
  EXPECT_THAT(with(member("'<i4'", "False", rank + ")")),
              FailsWith(Code::kDataLoss, "more than 64 dimensions"));
  EXPECT_THAT(
      [] { (void)npy_header_size(as_bytes(std::string("\x93NUMPY\x02\0\xff\xff\xff\x7f", 12))); },
      FailsWith(Code::kDataLoss, "longer than any header"));
  EXPECT_THAT([] { (void)npy_header_size(as_bytes(std::string("\x93NUMPY\x04\0\x10\0\0\0", 12))); },
              FailsWith(Code::kUnimplemented, "version 4.0"));
}

TEST(DetectNpz, LooksAtTheFirstMember) {
  const TempDir dir = TempDir::in_memory();
  put_file(dir / "a", archive_of({good_member()}));
  EXPECT_EQ(detect_file(FileTree(), dir / "a"), Format::kNpz);
  put_file(dir / "model.pt", archive_of({{.name = "archive/data.pkl", .content = {}}}));
  EXPECT_EQ(detect_file(FileTree(), dir / "model.pt"), Format::kPytorch);
  put_file(dir / "b", array_file(kDict, as_bytes("1234")));
  EXPECT_EQ(detect_file(FileTree(), dir / "b"), Format::kNpy);
  put_file(dir / "c.npz", as_bytes("what?"));
  EXPECT_EQ(detect_file(FileTree(), dir / "c.npz"), Format::kNpz)
      << "opening it says what is wrong";
}

}  // namespace
}  // namespace cairn
