// golden_test.cc -- reads every array that TensorStore and zarr-python wrote: whole, in random
// boxes, into any strides, from memory and from files; and verifies it.
#include <cairn/array/box.h>
#include <cairn/zarr/read/array.h>
#include <gtest/gtest.h>
#include <tests/support/hex.h>
#include <tests/support/little_endian.h>
#include <tests/support/temp_dir.h>
#include <tests/zarr/golden.h>

#include <random>
#include <set>

namespace cairn::zarr {
namespace {

using cairn::testing::little_endian;
using cairn::testing::TempDir;
using cairn::testing::to_hex;
using testing::GoldenArray;
using testing::missing_of;

constexpr std::byte kUntouched{0xa5};

// The part `box` of the expected elements, taken element by element.
Bytes expected_part(const GoldenArray& golden, const Box& box) {
  Bytes out;
  const auto strides = c_strides(golden.shape, golden.element_size);
  std::vector<std::int64_t> at(box.rank(), 0);
  const std::int64_t count = element_count(box.shape);
  for (std::int64_t i = 0; i < count; ++i) {
    std::int64_t rest = i;
    std::int64_t offset = 0;
    for (std::size_t d = box.rank(); d-- > 0; rest /= box.shape[d])
      offset += (box.origin[d] + rest % box.shape[d]) * strides[d];
    const auto from = golden.expected.begin() + offset;
    out.insert(out.end(), from, from + static_cast<std::ptrdiff_t>(golden.element_size));
  }
  return out;
}

Bytes read_box(const ZarrArray& array, const Box& box, MissingChunk missing) {
  const ArrayMetadata& metadata = array.metadata();
  Bytes out(static_cast<std::size_t>(element_count(box.shape)) * metadata.element_size, kUntouched);
  MutableArrayView view{.data = out.data(),
                        .dtype = metadata.dtype,
                        .element_size = metadata.element_size,
                        .shape = box.shape,
                        .strides = c_strides(box.shape, metadata.element_size)};
  array.read(box, view, missing);
  return little_endian(std::move(out), metadata.dtype);
}

// Reads into memory whose dimensions are reversed and which has a gap after each element; the gaps
// must stay untouched.
Bytes read_box_scattered(const ZarrArray& array, const Box& box, MissingChunk missing) {
  const ArrayMetadata& metadata = array.metadata();
  const auto count = static_cast<std::size_t>(element_count(box.shape));
  const std::size_t step = metadata.element_size + 3;
  Bytes memory(count * step, kUntouched);
  MutableArrayView view{.data = memory.data(),
                        .dtype = metadata.dtype,
                        .element_size = metadata.element_size,
                        .shape = box.shape,
                        .strides = {}};
  auto stride = static_cast<std::int64_t>(step);
  for (const std::int64_t extent : box.shape) {
    view.strides.push_back(stride);
    stride *= std::max<std::int64_t>(extent, 1);
  }
  array.read(box, view, missing);
  for (std::size_t i = 0; i < count; ++i)
    for (std::size_t k = metadata.element_size; k < step; ++k)
      EXPECT_EQ(memory[i * step + k], kUntouched);
  Bytes out(count * metadata.element_size);
  copy_elements(cairn::as_const(view), {.data = out.data(),
                                        .dtype = metadata.dtype,
                                        .element_size = metadata.element_size,
                                        .shape = box.shape,
                                        .strides = c_strides(box.shape, metadata.element_size)});
  return little_endian(std::move(out), metadata.dtype);
}

Box random_part(const Shape& shape, std::mt19937& random) {
  Box box;
  for (const std::int64_t extent : shape) {
    const auto from = std::uniform_int_distribution<std::int64_t>(0, extent)(random);
    const auto to = std::uniform_int_distribution<std::int64_t>(from, extent)(random);
    box.origin.push_back(from);
    box.shape.push_back(to - from);
  }
  return box;
}

void check_reads(const GoldenArray& golden, const StorePtr& store, std::mt19937& random) {
  const ZarrArray array = ZarrArray::open(store, "a");
  EXPECT_EQ(array.metadata().dtype_name, golden.dtype);
  EXPECT_EQ(array.metadata().element_size, golden.element_size);
  EXPECT_EQ(array.metadata().shape, golden.shape);
  ASSERT_EQ(to_hex(read_box(array, Box::whole(golden.shape), missing_of(golden))),
            to_hex(golden.expected));
  for (int i = 0; i < 10; ++i) {
    const Box box = random_part(golden.shape, random);
    SCOPED_TRACE(box_text(box));
    ASSERT_EQ(to_hex(read_box(array, box, missing_of(golden))), to_hex(expected_part(golden, box)));
    ASSERT_EQ(to_hex(read_box_scattered(array, box, missing_of(golden))),
              to_hex(expected_part(golden, box)));
  }
}

void check_view(const GoldenArray& golden, const StorePtr& store) {
  if (golden.fill) return;
  if (const auto view = ZarrArray::open(store, "a").try_view()) {
    EXPECT_EQ(view->shape(), golden.shape);
    EXPECT_EQ(little_endian(Bytes(view->bytes().begin(), view->bytes().end()), view->dtype()),
              golden.expected);
  } else {
    EXPECT_TRUE(kBigEndianMachine || golden.name.find(" raw") == std::string::npos)
        << "a raw chunk gives no view";
  }
}

void check_verify(const GoldenArray& golden, const StorePtr& store) {
  const CheckedArray report =
      verify_array(ZarrArray::open(store, "a"), "label", missing_of(golden), {});
  for (const Finding& finding : report.findings) ADD_FAILURE() << finding.message;
  EXPECT_EQ(report.chunks == 0,
            golden.expected.empty() || (golden.fill && golden.keys.size() == 1));
}

class Golden : public ::testing::TestWithParam<const std::vector<GoldenArray>* (*)()> {};

TEST_P(Golden, FromMemory) {
  std::mt19937 random(1);
  for (const GoldenArray& golden : *GetParam()()) {
    SCOPED_TRACE(golden.name);
    const StorePtr store = golden.in_memory();
    EXPECT_NO_THROW(check_reads(golden, store, random));
    EXPECT_NO_THROW(check_view(golden, store));
    EXPECT_NO_THROW(check_verify(golden, store));
  }
}

TEST_P(Golden, FromFiles) {
  std::mt19937 random(2);
  for (const GoldenArray& golden : *GetParam()()) {
    SCOPED_TRACE(golden.name);
    const TempDir folder;
    for (const auto& [key, value] : golden.keys) cairn::testing::put_file(folder / key, value);
    const StorePtr store = open_file_store(folder.path());
    EXPECT_NO_THROW(check_reads(golden, store, random));
    EXPECT_NO_THROW(check_view(golden, store));
    EXPECT_NO_THROW(check_verify(golden, store));
  }
}

INSTANTIATE_TEST_SUITE_P(Producers, Golden,
                         ::testing::Values(
                             +[] { return &testing::tensorstore_arrays(); },
                             +[] { return &testing::zarr_python_arrays(); },
                             +[] { return &testing::filtered_arrays(); }));

TEST(GoldenSet, HasEveryTypeInBothFormats) {
  std::set<std::string> seen;
  for (const GoldenArray& golden : testing::tensorstore_arrays())
    seen.insert(golden.name.substr(0, 2) + " " + golden.dtype);
  for (int i = 0; i < kDTypeCount; ++i) {
    const std::string name(dtype_name(static_cast<DType>(i)));
    if (name == "int2" || name == "uint2" || name == "uint4" || name == "float8_e4m3") continue;
    EXPECT_TRUE(seen.contains("v2 " + name)) << name;
    EXPECT_TRUE(seen.contains("v3 " + name)) << name;
  }
}

}  // namespace
}  // namespace cairn::zarr
