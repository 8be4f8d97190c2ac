// source_leaves.h -- the leaves of a checkpoint by their keys: paths joined with '/'.
#pragma once

#include <cairn/checkpoint.h>

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace cairn::inline v0 {

class SourceLeaves {
 public:
  // Throws invalid_argument for a checkpoint of several items, and for two leaves with one key.
  explicit SourceLeaves(const Checkpoint& source);

  // The keys, in the order of the tensors. A key that is not UTF-8 has its escaped form.
  [[nodiscard]] const std::vector<std::string>& keys() const { return keys_; }
  // The index of the tensor with that key.
  [[nodiscard]] std::optional<std::size_t> find(std::string_view key) const;
  [[nodiscard]] const Shape& shape(std::size_t index) const { return shapes_[index]; }

 private:
  std::vector<std::string> keys_;
  std::vector<Shape> shapes_;
  std::unordered_map<std::string, std::size_t> places_;
};

}  // namespace cairn::inline v0
