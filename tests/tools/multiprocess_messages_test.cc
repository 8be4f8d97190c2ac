// What processes tell each other survives the way, and what is cut short is noticed.
#include <cairn/tools/source/multiprocess.h>
#include <gtest/gtest.h>

#include "tests/support/matchers.h"

namespace cairn {
namespace {

using testing::FailsWith;

VerifyPart some_part() {
  VerifyPart part;
  part.around = {.findings = {{Severity::kNote, "t", "f", 7, "m"}},
                 .tensors = 1,
                 .chunks = 2,
                 .bytes = 3,
                 .unprotected = {"a", ""}};
  part.arrays = {{.tensor = 5,
                  .findings = {{Severity::kDamage, "w", "", 0, "bad"}},
                  .chunks = 8,
                  .bytes = 9,
                  .unprotected = true},
                 {.tensor = 6, .crc = 0xdeadbeef, .crc_bytes = 11}};
  return part;
}

std::vector<ComparedLeaf> some_leaves() {
  ValueDiff values{.different = 1,
                   .bits_only = 2,
                   .within = 3,
                   .nans_a = 4,
                   .nans_b = 5,
                   .infs_a = 6,
                   .infs_b = 7};
  values.nan_mismatches = 8;
  values.inf_mismatches = 9;
  values.max_abs_error = 0.5;
  values.first = 10;
  ValueSums sums{.pairs = 11, .largest_b = 12, .largest_error = 13};
  sums.products = {14, 15e-20};
  return {{.leaf = 3, .error_a = "a", .error_b = "b", .values = {}, .sums = {}},
          {.leaf = 4, .error_a = "", .error_b = "", .values = values, .sums = sums}};
}

TEST(MultiprocessMessages, VerifyPartsComeBack) {
  const Bytes message = encode_verify_part(some_part());
  const VerifyPart back = decode_verify_part(message);
  EXPECT_EQ(encode_verify_part(back), message);
  EXPECT_EQ(back.around.findings.at(0).message, "m");
  EXPECT_EQ(back.around.unprotected, (std::vector<std::string>{"a", ""}));
  EXPECT_EQ(back.arrays.at(0).findings.at(0).severity, Severity::kDamage);
  EXPECT_TRUE(back.arrays.at(0).unprotected);
  EXPECT_EQ(back.arrays.at(1).crc, 0xdeadbeef);
}

TEST(MultiprocessMessages, ComparedLeavesComeBack) {
  const Bytes message = encode_compared(some_leaves());
  const auto back = decode_compared(message);
  EXPECT_EQ(encode_compared(back), message);
  ASSERT_EQ(back.size(), 2U);
  EXPECT_EQ(back[0].error_b, "b");
  EXPECT_FALSE(back[0].values);
  EXPECT_EQ(back[1].values->inf_mismatches, 9U);
  EXPECT_EQ(back[1].values->max_abs_error, 0.5);
  EXPECT_EQ(back[1].values->max_rel_error, std::nullopt);
  EXPECT_EQ(back[1].values->first, 10U);
  EXPECT_EQ(back[1].sums.pairs, 11U);
  EXPECT_EQ(back[1].sums.largest_error, 13);
  EXPECT_EQ(back[1].sums.products.low, 15e-20);
}

TEST(MultiprocessMessages, TruncationIsDamage) {
  const Bytes part = encode_verify_part(some_part());
  const Bytes leaves = encode_compared(some_leaves());
  for (std::size_t n = 0; n < part.size(); ++n)
    EXPECT_THAT([&] { decode_verify_part(ByteView(part).first(n)); },
                FailsWith(Code::kDataLoss, "unexpected end of data"));
  for (std::size_t n = 0; n < leaves.size(); ++n)
    EXPECT_THAT([&] { decode_compared(ByteView(leaves).first(n)); },
                FailsWith(Code::kDataLoss, "unexpected end of data"));
  Bytes longer = part;
  longer.emplace_back();
  EXPECT_THAT([&] { decode_verify_part(longer); },
              FailsWith(Code::kDataLoss, "1 bytes are left over"));
}

}  // namespace
}  // namespace cairn
