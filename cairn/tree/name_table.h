// name_table.h -- finds tensors by name: one flat hash table, because checkpoints may have a
// hundred thousand of them.
#pragma once

#include <cairn/checkpoint.h>

#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

namespace cairn {

// Borrows the tensors. Of those that share a name the first is found.
class NameTable {
 public:
  explicit NameTable(std::span<const TensorInfo> tensors);
  [[nodiscard]] std::optional<std::size_t> find(std::string_view name) const;
  [[nodiscard]] bool contains(std::string_view name) const { return find(name).has_value(); }
  // (a later one, the first one) of each name that is there more than once.
  [[nodiscard]] const std::vector<std::pair<std::size_t, std::size_t>>& repeated() const {
    return repeated_;
  }

 private:
  static constexpr std::size_t kEmpty = ~std::size_t{0};
  // Where `name` is, or the free slot where it would go.
  [[nodiscard]] std::size_t slot_of(std::string_view name) const;

  std::span<const TensorInfo> tensors_;
  std::vector<std::size_t> slots_;  // a power of two, at most half full
  std::vector<std::pair<std::size_t, std::size_t>> repeated_;
};

}  // namespace cairn
