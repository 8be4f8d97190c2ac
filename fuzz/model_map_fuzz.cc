// model_map_fuzz.cc -- parses any bytes as rules with two sides, as an expression or as a
// rearrangement, and applies maps to a small checkpoint.
#include <cairn/convert.h>
#include <cairn/error.h>
#include <cairn/tools/model_map/expression.h>
#include <cairn/tools/transform/rearrangement.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "tests/tools/memory_checkpoint.h"

namespace {

class NoNames final : public cairn::ValueNames {
 public:
  [[nodiscard]] const cairn::Json* find(std::string_view /*name*/) const override {
    return nullptr;
  }
  [[nodiscard]] std::vector<std::string> all() const override { return {}; }
  [[nodiscard]] cairn::Json call(std::string_view /*function*/,
                                 const std::vector<cairn::Json>& /*arguments*/) const override {
    return nullptr;
  }
};

std::shared_ptr<const cairn::Checkpoint> source() {
  using cairn::testing::make_array;
  auto made = std::make_shared<cairn::testing::MemoryCheckpoint>();
  for (const char* name : {"l.0.w", "l.1.w", "x"})
    made->add(name, make_array(cairn::DType::kFloat32, {2, 2}, std::vector<float>{1, 2, 3, 4}));
  return made;
}

void apply(std::string_view text, bool reverse) {
  const auto made = cairn::transform_checkpoint(source(), text, {.reverse = reverse}).checkpoint;
  constexpr std::int64_t kMost = 1 << 16;
  for (std::size_t i = 0; i < made->tensors().size() && i < 16; ++i)
    if (cairn::element_count(made->tensors()[i].shape) < kMost)
      (void)made->read(made->tensors()[i].name);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  try {
    if (data[0] == 'e')
      (void)cairn::Expression(text).evaluate(NoNames());
    else if (data[0] == 'r')
      (void)cairn::parse_rearrangement(text);
    else
      apply(text, data[0] == 'b');
  } catch (const cairn::Error&) {  // most inputs are rejected
  }
  return 0;
}
