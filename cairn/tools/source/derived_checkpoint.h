// derived_checkpoint.h -- a checkpoint that is computed from another one, or from several.
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
  // Names of its leaves that differ between the merged checkpoints, and are those of source(); null
  // if it is not from merge_checkpoints().
  [[nodiscard]] virtual const std::vector<std::string>* taken_first() const { return nullptr; }
  // What it is computed from beside source().
  [[nodiscard]] virtual std::vector<const Checkpoint*> other_sources() const { return {}; }
};

}  // namespace cairn::inline v0
