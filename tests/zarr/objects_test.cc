// objects_test.cc -- strings and other elements of no fixed size: named, checked, and refused where
// they would be read.
#include <cairn/array/box.h>
#include <cairn/zarr/codec/objects.h>
#include <cairn/zarr/read/array.h>
#include <gtest/gtest.h>
#include <tests/support/damage.h>
#include <tests/support/matchers.h>
#include <tests/zarr/golden.h>

namespace cairn::zarr {
namespace {

using cairn::testing::FailsWith;
using testing::GoldenArray;

const std::vector<GoldenArray>& object_arrays() {
  static const auto arrays = testing::load_golden("zarr-python-3.1.6-objects");
  return arrays;
}

VerifyReport verify(const StorePtr& store) {
  CheckedArray checked = verify_array(ZarrArray::open(store, "a"), "a", MissingChunk::kError, {});
  VerifyReport report{
      .findings = std::move(checked.findings), .chunks = checked.chunks, .bytes = checked.bytes};
  if (checked.unprotected) report.unprotected.emplace_back("a");
  return report;
}

TEST(Objects, AreNamedAndCheckedButNotRead) {
  for (const GoldenArray& golden : object_arrays()) {
    SCOPED_TRACE(golden.name);
    const StorePtr store = golden.in_memory();
    const ZarrArray array = ZarrArray::open(store, "a");
    EXPECT_EQ(array.metadata().dtype_name, golden.dtype);
    EXPECT_EQ(array.metadata().dtype, DType::kOpaque);
    EXPECT_EQ(array.metadata().element_size, 0U);
    EXPECT_EQ(array.metadata().shape, golden.shape);
    EXPECT_FALSE(array.try_view());
    Bytes nothing;
    const MutableArrayView out{.data = nothing.data(),
                               .dtype = DType::kOpaque,
                               .element_size = 0,
                               .shape = {5},
                               .strides = {0}};
    EXPECT_THAT([&] { array.read(Box::whole({5}), out, MissingChunk::kError); },
                FailsWith(Code::kUnimplemented,
                          "elements of type " + golden.dtype + " have no fixed size"));
    const VerifyReport report = verify(store);
    for (const Finding& finding : report.findings) ADD_FAILURE() << finding.message;
    EXPECT_EQ(report.chunks, 2U);
    const bool checksummed = golden.name.find("checksum") != std::string::npos ||
                             golden.name.find("gzip") != std::string::npos;
    EXPECT_EQ(report.unprotected.empty(), checksummed);
  }
}

TEST(Objects, DamageIsFound) {
  for (const GoldenArray& golden : object_arrays()) {
    SCOPED_TRACE(golden.name);
    const auto& [key, good] = golden.keys.back();
    const StorePtr store = golden.in_memory();
    cairn::testing::for_each_truncation(good,
                                        [&, &name = key](ByteView bad, const std::string& what) {
                                          store->write(name, bad);
                                          EXPECT_EQ(verify(store).findings.size(), 1U) << what;
                                        });
  }
}

TEST(Objects, BytesThatNoWriterMakes) {
  const auto bytes = [](std::initializer_list<unsigned char> list) {
    const auto view = std::as_bytes(std::span(list.begin(), list.size()));
    return Bytes(view.begin(), view.end());
  };
  const auto check = [](ObjectCodec codec, std::int64_t count, const Bytes& b) {
    check_object_bytes(codec, count, b);
  };
  EXPECT_NO_THROW(
      check(ObjectCodec::kVlenUtf8, 2, bytes({2, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 'x'})));
  EXPECT_NO_THROW(check(ObjectCodec::kVlenBytes, 1, bytes({1, 0, 0, 0, 1, 0, 0, 0, 0xff})));
  EXPECT_NO_THROW(check(ObjectCodec::kOther, 1, bytes({7})));
  EXPECT_THAT(
      [&] {
        check(ObjectCodec::kVlenUtf8, 1, bytes({1, 0, 0, 0, 1, 0, 0, 0, 0xff}));
      },
      FailsWith(Code::kDataLoss, "element 0 is not UTF-8"));
  EXPECT_THAT(
      [&] {
        check(ObjectCodec::kVlenUtf8, 2, bytes({1, 0, 0, 0, 0, 0, 0, 0}));
      },
      FailsWith(Code::kDataLoss, "holds 1 elements, expected 2"));
  EXPECT_THROW(check(ObjectCodec::kVlenUtf8, 1, bytes({1, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 'x'})),
               Error);
  EXPECT_THROW(check(ObjectCodec::kVlenUtf8, 1, bytes({1, 0, 0, 0, 0, 0, 0, 0, 'x'})), Error);
  EXPECT_THROW(check(ObjectCodec::kVlenUtf8, std::int64_t{1} << 32U, bytes({0, 0, 0, 0})), Error);
}

}  // namespace
}  // namespace cairn::zarr
