// codes_test.cc -- codes of every packing, at every place in a row, against one number at a time.
#include <cairn/tools/dequantize/codes.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <vector>

namespace cairn {
namespace {

// Bytes 0 to 255 twice, in an order in which neighbours differ in both halves.
std::vector<std::byte> row_of_codes() {
  std::vector<std::byte> row;
  for (unsigned i = 0; i < 512; ++i) row.push_back(static_cast<std::byte>(i * 37U + 11U));
  return row;
}

unsigned code_byte(const std::vector<std::byte>& row, std::int64_t i) {
  return std::to_integer<unsigned>(row[static_cast<std::size_t>(i)]);
}
unsigned code_nibble(const std::vector<std::byte>& row, std::int64_t i) {
  return code_byte(row, i / 2) >> (i % 2 == 0 ? 0U : 4U) & 15U;
}

float float4_number(unsigned code) {
  constexpr float kMagnitudes[] = {0, 0.5F, 1, 1.5F, 2, 3, 4, 6};
  return code >= 8 ? -kMagnitudes[code - 8] : kMagnitudes[code];
}

// The number of a code, by the definition of the format.
float number_of_code(CodePacking packing, const std::vector<std::byte>& row, std::int64_t i) {
  switch (packing) {
    case CodePacking::kFloat4:
      return float4_number(code_nibble(row, i));
    case CodePacking::kInt4:
      return static_cast<float>(code_nibble(row, i)) - 8;
    case CodePacking::kInt8:
      return static_cast<float>(code_byte(row, i)) - 128;
    case CodePacking::kElements:
      break;
  }
  return static_cast<float>(static_cast<signed char>(code_byte(row, i)));
}

TEST(Codes, EveryCodeAtEveryPlace) {
  const std::vector<std::byte> row = row_of_codes();
  for (const CodePacking packing :
       {CodePacking::kElements, CodePacking::kFloat4, CodePacking::kInt4, CodePacking::kInt8})
    for (std::int64_t first = 0; first < 20; ++first)
      for (const std::int64_t n : {0, 1, 2, 3, 7, 8, 33, 300}) {
        std::vector<float> numbers(static_cast<std::size_t>(n) + 1, 123.0F);
        decode_codes(packing, DType::kInt8, row.data(), first, n, numbers.data());
        for (std::int64_t i = 0; i < n; ++i) {
          const float want = number_of_code(packing, row, first + i);
          const float found = numbers[static_cast<std::size_t>(i)];
          ASSERT_EQ(want, found) << static_cast<int>(packing) << " " << first << " " << i;
          ASSERT_EQ(std::signbit(want), std::signbit(found));
        }
        EXPECT_EQ(numbers.back(), 123.0F) << "written behind the end";
      }
}

TEST(Codes, FloatsOfEightBitsWithTheirSpecialNumbers) {
  const std::vector<std::byte> row = {std::byte{0x7f}, std::byte{0xff}, std::byte{0x00},
                                      std::byte{0x80}, std::byte{0x38}, std::byte{0x7e}};
  std::vector<float> numbers(row.size());
  decode_codes(CodePacking::kElements, DType::kFloat8E4m3fn, row.data(), 0, 6, numbers.data());
  EXPECT_TRUE(std::isnan(numbers[0]) && std::isnan(numbers[1]));
  EXPECT_FALSE(std::signbit(numbers[2]));
  EXPECT_TRUE(std::signbit(numbers[3]));
  EXPECT_EQ(numbers[4], 1.0F);
  EXPECT_EQ(numbers[5], 448.0F);
}

TEST(Codes, CodesInAStoredElement) {
  EXPECT_EQ(codes_per_element(CodePacking::kElements), 1);
  EXPECT_EQ(codes_per_element(CodePacking::kFloat4), 2);
  EXPECT_EQ(codes_per_element(CodePacking::kInt4), 8);
  EXPECT_EQ(codes_per_element(CodePacking::kInt8), 4);
}

}  // namespace
}  // namespace cairn
