// golden_test.cc -- quantised weights that the real packages wrote, and the numbers that these
// packages make of them, bit for bit.
#include <cairn/cairn.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <string>

#include "tests/support/upload.h"

namespace cairn {
namespace {

std::string golden_model(const std::string& name) {
  return std::string(CAIRN_GOLDEN_DIR) + "/quantized/" + name;
}

// Every NaN is as good as another one.
bool are_same_floats(const Array& a, const Array& b) {
  if (a.shape() != b.shape() || a.dtype() != DType::kFloat32 || b.dtype() != DType::kFloat32)
    return false;
  for (std::size_t i = 0; i < a.bytes().size(); i += sizeof(float)) {
    float x = 0, y = 0;
    std::memcpy(&x, a.bytes().data() + i, sizeof(x));
    std::memcpy(&y, b.bytes().data() + i, sizeof(y));
    if (!(std::isnan(x) && std::isnan(y)) && std::memcmp(&x, &y, sizeof(x)) != 0) return false;
  }
  return true;
}

TEST(DequantizeGolden, WeightsAreThoseOfTheRealPackages) {
  const auto expected = open(golden_model("expected.safetensors"));
  std::size_t compared = 0;
  for (const char* name : {"fp8", "packed/model.safetensors", "torch.pt"}) {
    const auto made = dequantize(open(golden_model(name)), {.dtype = DType::kFloat32});
    for (const auto& [weight, format] : made.report.dequantized) {
      EXPECT_TRUE(are_same_floats(made.checkpoint->read(weight), expected->read(weight)))
          << name << " " << weight << ", " << format;
      ++compared;
    }
  }
  EXPECT_EQ(compared, expected->tensors().size());
  EXPECT_EQ(compared, 10U);
}

TEST(DequantizeGolden, TheTypeOfTheConfiguration) {
  const auto made = dequantize(open(golden_model("fp8")));
  EXPECT_EQ(made.checkpoint->info("block.weight").dtype, DType::kFloat32);
  EXPECT_EQ(made.checkpoint->info("norm.weight").dtype, DType::kBfloat16);
  EXPECT_EQ(dequantize(open(golden_model("packed/model.safetensors")))
                .checkpoint->info("group.weight")
                .dtype,
            DType::kBfloat16);
}

// In a store, too, the configuration lies beside the files.
TEST(DequantizeGolden, AModelInAStore) {
  const std::string url = "memory://dequantize_golden/fp8";
  testing::upload(golden_model("fp8"), url + "/");
  const auto made = dequantize(open(url));
  EXPECT_EQ(made.checkpoint->info("block.weight").dtype, DType::kFloat32);
  const auto local = dequantize(open(golden_model("fp8")));
  EXPECT_EQ(made.checkpoint->load(), local.checkpoint->load());
  EXPECT_EQ(dequantize(open(url + "/model.safetensors")).checkpoint->info("block.weight").dtype,
            DType::kFloat32);
}

}  // namespace
}  // namespace cairn
