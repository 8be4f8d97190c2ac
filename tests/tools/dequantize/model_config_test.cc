// model_config_test.cc -- what a config.json says, and texts that are none.
#include <cairn/tools/dequantize/model_config.h>
#include <gmock/gmock.h>

#include <string>

#include "tests/support/matchers.h"

namespace cairn {
namespace {

using testing::FailsWith;

constexpr const char* kBlockConfig =
    R"({"model_type": "deepseek_v3", "torch_dtype": "bfloat16", "quantization_config":
        {"quant_method": "fp8", "fmt": "e4m3", "weight_block_size": [128, 64]}})";
constexpr const char* kPackedConfig =
    R"({"text_config": {"dtype": "float16"}, "quantization_config": {"quant_method":
        "compressed-tensors", "config_groups": {"group_0": {"weights": {"num_bits": 4,
        "group_size": 32, "strategy": "group"}}}}})";

TEST(ModelConfig, Members) {
  const ModelConfig fp8 = parse_model_config(kBlockConfig);
  EXPECT_EQ(fp8.dtype, DType::kBfloat16);
  EXPECT_EQ(fp8.method, "fp8");
  EXPECT_EQ(fp8.blocks, (Shape{128, 64}));
  EXPECT_EQ(fp8.groups, Shape{});
  const ModelConfig packed = parse_model_config(kPackedConfig);
  EXPECT_EQ(packed.dtype, DType::kFloat16);
  EXPECT_EQ(packed.groups, (Shape{1, 32}));
  EXPECT_EQ(packed.bits, 4);
}

TEST(ModelConfig, SaysNothing) {
  for (const char* text :
       {"{}", R"({"dtype": 7, "quantization_config": null})", R"({"dtype": "auto"})", "[1]",
        R"({"quantization_config": {"quant_method": 3, "weight_block_size": null}})",
        R"({"quantization_config": {"config_groups": {"a": 1, "b": {"weights": []}}}})"}) {
    const ModelConfig config = parse_model_config(text);
    EXPECT_EQ(config.dtype, std::nullopt) << text;
    EXPECT_EQ(config.method, "") << text;
    EXPECT_EQ(config.blocks, Shape{}) << text;
    EXPECT_EQ(config.bits, std::nullopt) << text;
  }
}

// Groups of modules that differ leave it to the shapes.
TEST(ModelConfig, GroupsThatDiffer) {
  const ModelConfig config = parse_model_config(
      R"({"quantization_config": {"config_groups": {
          "a": {"weights": {"num_bits": 4, "group_size": 32}},
          "b": {"weights": {"num_bits": 8, "group_size": null}}}}})");
  EXPECT_EQ(config.groups, Shape{});
  EXPECT_EQ(config.bits, std::nullopt);
}

TEST(ModelConfig, WrongBlocks) {
  for (const char* blocks :
       {"[128, 0]", "[128, -1]", "[]", "3", "[\"a\"]", "[1e30]", "[99999999999999999999]"})
    EXPECT_THAT(
        [&] {
          parse_model_config(std::string(R"({"quantization_config": {"weight_block_size": )") +
                             blocks + "}}");
        },
        FailsWith(Code::kDataLoss, "weight_block_size: expected a list of positive numbers"))
        << blocks;
}

// Any text is parsed or is an error.
TEST(ModelConfig, DamagedTexts) {
  for (const std::string text : {kBlockConfig, kPackedConfig})
    for (std::size_t i = 0; i < text.size(); ++i) {
      EXPECT_THAT([&] { parse_model_config(text.substr(0, i)); }, FailsWith(Code::kDataLoss));
      for (const char other : {'\0', '"', '{', ']', '9', '\x80'}) {
        std::string flipped = text;
        flipped[i] = other;
        try {
          (void)parse_model_config(flipped);
        } catch (const Error& e) {
          EXPECT_EQ(e.code(), Code::kDataLoss);
        }
      }
    }
}

}  // namespace
}  // namespace cairn
