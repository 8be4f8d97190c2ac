// derived_checkpoint.h -- a checkpoint that is computed from another one.
#pragma once

#include <cairn/checkpoint.h>

#include <string>
#include <utility>
#include <vector>

namespace cairn::inline v0 {

// A checkpoint that is computed from another one.
class DerivedCheckpoint : public Checkpoint {
 public:
  [[nodiscard]] virtual const Checkpoint& source() const = 0;
  // (name, format) of its leaves that are dequantised; null if it is not from dequantize().
  [[nodiscard]] virtual const std::vector<std::pair<std::string, std::string>>* dequantized()
      const {
    return nullptr;
  }
};

}  // namespace cairn::inline v0
