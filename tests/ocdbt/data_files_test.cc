// The data file table: codec, resolution, and which paths are refused.
#include <cairn/ocdbt/format/data_files.h>
#include <gtest/gtest.h>

#include "tests/ocdbt/small_objects.h"

namespace cairn::ocdbt {
namespace {

using cairn::testing::check_codec;
using cairn::testing::check_damages;
using cairn::testing::Damage;
using cairn::testing::erase_at;
using cairn::testing::FailsWith;
using cairn::testing::Guard;
using cairn::testing::insert_at;
using testing::to_bytes;

Bytes encode_table(const DataFileTable& files) {
  ByteWriter out;
  write_data_files(out, files);
  return std::move(out).take();
}

DataFileTable decode_table(ByteView bytes) {
  ByteReader in(bytes);
  DataFileTable files = read_data_files(in);
  in.finish();
  return files;
}

TEST(DataFiles, RoundTrip) {
  const DataFileTable tables[] = {
      {},
      {{"", ""}},
      testing::one_file(),
      {{"", ""}, {"", "d/12"}, {"", "d/13"}},
      testing::files_of_two(),
      {{"a", "bc"}, {"ab", "c"}, {"abc", ""}},  // one path, three ways to split it
      {{"z", "1"}, {"a", "1"}, {"a", "1"}},     // neither sorted nor distinct
  };
  for (const auto& table : tables) check_codec(table, encode_table, decode_table, Guard::kNone);
}

// The table that TensorStore wrote for the root of a merged checkpoint of three processes.
TEST(DataFiles, HaveTheDocumentedBytes) {
  const DataFileTable files = {{"ocdbt.process_0/", "d/cb6800000000000000000000000000aa"},
                               {"ocdbt.process_1/", "d/4cef00000000000000000000000000bb"},
                               {"ocdbt.process_2/", "d/9d5f00000000000000000000000000cc"}};
  EXPECT_EQ(as_text(encode_table(files)),
            "\x03\x0e\x0e\x32\x24\x24\x10\x10\x10"
            "ocdbt.process_0/d/cb6800000000000000000000000000aa"
            "1/d/4cef00000000000000000000000000bb"
            "2/d/9d5f00000000000000000000000000cc");
}

TEST(DataFiles, TablesThatAreRefused) {
  const Bytes good = encode_table(testing::files_of_two());  // 3 | 5 1 | 6 1 5 | 3 3 3 | ...
  const Damage table[] = {
      {"more files than bytes", [](Bytes& b) { b[0] = std::byte{0x7f}; }, Code::kDataLoss,
       "data file table of 127 files in"},
      {"prefix beyond the path before", [](Bytes& b) { b[1] = std::byte{7}; }, Code::kDataLoss,
       "path_prefix_length[1]=7 exceeds the 6"},
      {"base beyond the path", [](Bytes& b) { b[6] = std::byte{7}; }, Code::kDataLoss,
       "base_path_length[0]=7 exceeds path length 6"},
      {"prefix beyond the shorter base", [](Bytes& b) { b[7] = std::byte{2}; }, Code::kDataLoss,
       "path_prefix_length[1]=5 exceeds common base path length 2"},
      {"length of 17 bits",
       [](Bytes& b) {
         erase_at(b, 3, 1);
         insert_at(b, 3, to_bytes("\x80\x80\x04"));
       },
       Code::kDataLoss, "varint 65536 exceeds 65535"},
      {"path of 65536 bytes",
       [](Bytes& b) {
         erase_at(b, 4, 1);
         insert_at(b, 4, to_bytes("\xfb\xff\x03"));
       },
       Code::kDataLoss, "path_length[1]=65536 exceeds limit of 65535"},
      {"suffix cut short", [](Bytes& b) { b.pop_back(); }, Code::kDataLoss,
       "unexpected end of data"},
  };
  check_damages(good, table, decode_table);
}

TEST(DataFiles, PathsThatShareFarTooMuchAreRefused) {
  DataFileTable files;
  for (int i = 1000; i < 3500; ++i)
    files.push_back({"", std::string(16000, 'x') + std::to_string(i)});
  EXPECT_THAT([&] { decode_table(encode_table(files)); },
              FailsWith(Code::kUnimplemented, "which exceeds the expansion that Cairn allows"));
}

TEST(DataFiles, BasePathsAddUp) {
  const ResolvedFile file = resolve_file({"l2/", "d/x"}, "l1/");
  EXPECT_EQ(file.path, "l1/l2/d/x");
  EXPECT_EQ(file.base_path(), "l1/l2/");
}

TEST(DataFiles, PathsBehindALongBaseAreChecked) {
  const DataFileTable files = {{"b/", std::string(100, 'x')}};
  EXPECT_NO_THROW(check_path_lengths(files, 65535 - 102));
  EXPECT_THAT([&] { check_path_lengths(files, 65535 - 101); },
              FailsWith(Code::kDataLoss, "path of 65536 bytes exceeds limit of 65535"));
}

TEST(DataFiles, UnsafePathsAreRefused) {
  for (const char* path : {"d/x", "x", "a.b/.c/..d", "x.__lock.y", "d\\x"})
    EXPECT_NO_THROW(check_file_path(path)) << path;
  const struct {
    std::string path, expect;
  } table[] = {
      {"", "empty component"},         {"/d/x", "empty component"},
      {"d//x", "empty component"},     {"d/", "empty component"},
      {"./x", "'.' or '..'"},          {"d/../../etc", "'.' or '..'"},
      {"..", "'.' or '..'"},           {"d\\..\\x", "'.' or '..'"},
      {std::string("d\0x", 3), "NUL"}, {"d/x.__lock", "names a lock"},
      {"x.__lock/d", "a lock file"},   {"\\x", "empty component"},
  };
  for (const auto& bad : table) {
    SCOPED_TRACE(bad.path);
    const DataFile file{"", bad.path};
    EXPECT_THAT([&] { check_file_path(bad.path); }, FailsWith(Code::kDataLoss, bad.expect));
    EXPECT_THAT([&] { (void)resolve_file(file, ""); }, FailsWith(Code::kDataLoss, bad.expect));
  }
}

TEST(DataFiles, ReferencesAreChecked) {
  constexpr std::uint64_t kMax = ~std::uint64_t{0};
  EXPECT_NO_THROW(check_data_ref({0, kMax / 2, 0}, AllowMissing::kNo, 0));
  EXPECT_NO_THROW(check_data_ref({0, kMax, kMax}, AllowMissing::kYes, 0));
  for (const DataRef& bad :
       {DataRef{0, kMax, kMax}, DataRef{0, kMax, 0}, DataRef{0, 0, kMax}, DataRef{0, kMax / 2, 1}})
    EXPECT_THAT([&] { check_data_ref(bad, AllowMissing::kNo, 4); },
                FailsWith(Code::kDataLoss, "invalid offset/length pair of entry 4"));
  for (const DataRef& bad : {DataRef{0, kMax, 1}, DataRef{0, 1, kMax}})
    EXPECT_THAT([&] { check_data_ref(bad, AllowMissing::kYes, 0); },
                FailsWith(Code::kDataLoss, "invalid offset/length pair"));
}

}  // namespace
}  // namespace cairn::ocdbt
