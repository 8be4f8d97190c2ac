// name_table.h -- finds tensors by name with one flat hash table, because a checkpoint may have a
// hundred thousand of them.
#pragma once

#include <cairn/checkpoint.h>

#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

namespace cairn::inline v0 {

// Borrows the tensors. If several have the same name, it finds the first one.
class NameTable {
 public:
  explicit NameTable(std::span<const TensorInfo> tensors);
  // The position of the tensor; nullopt if no tensor has this name.
  [[nodiscard]] std::optional<std::size_t> find(std::string_view name) const;
  [[nodiscard]] bool contains(std::string_view name) const { return find(name).has_value(); }
  // For each name that occurs more than once: (a later tensor, the first tensor).
  [[nodiscard]] const std::vector<std::pair<std::size_t, std::size_t>>& repeated() const {
    return repeated_;
  }

 private:
  static constexpr std::size_t kEmpty = ~std::size_t{0};
  // The slot of `name`, or the free slot for it.
  [[nodiscard]] std::size_t slot_of(std::string_view name) const;

  std::span<const TensorInfo> tensors_;
  std::vector<std::size_t> slots_;  // size: a power of two; at most half full
  std::vector<std::pair<std::size_t, std::size_t>> repeated_;
};

}  // namespace cairn::inline v0
