// derived_checkpoint.h -- a checkpoint that is computed from another one, or from several.
#pragma once

#include <cairn/checkpoint.h>
#include <cairn/convert.h>

#include <cstddef>
#include <cstdint>
#include <span>
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
  // The values that its rules use.
  [[nodiscard]] virtual std::vector<TransformValue> values() const { return {}; }
  // Names of leaves of its source that rules with two sides do not convert.
  [[nodiscard]] virtual std::vector<std::string> unused() const { return {}; }
  // What its rules have scaled so far without an exact way back.
  [[nodiscard]] virtual std::vector<InexactLeaves> inexact() const { return {}; }
  // For each leaf, a number that is the same for leaves which are parts of one stored array, else
  // 0. Empty: all 0.
  [[nodiscard]] virtual std::vector<std::uint64_t> groups() const { return {}; }
  // Tells it that exactly these leaves will be read, each once. Without a call: all.
  virtual void expect_reads(std::span<const std::size_t> /*leaves*/) const {}
  // What it is computed from beside source().
  [[nodiscard]] virtual std::vector<const Checkpoint*> other_sources() const { return {}; }
};

}  // namespace cairn::inline v0
