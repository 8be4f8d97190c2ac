// named_leaves.h -- leaves by their names, and by the names of what belongs to them.
#pragma once

#include <cairn/checkpoint.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace cairn::inline v0 {

class NamedLeaves {
 public:
  explicit NamedLeaves(const Checkpoint& source);

  [[nodiscard]] const Checkpoint& source() const { return source_; }
  [[nodiscard]] std::size_t size() const { return tensors_.size(); }
  [[nodiscard]] const TensorInfo& operator[](std::size_t i) const { return tensors_[i]; }
  // The leaf whose name is that of leaf `i` with `to` in place of `from` at its end.
  [[nodiscard]] std::optional<std::size_t> sibling(std::size_t i, std::string_view from,
                                                   std::string_view to) const;
  // The same, but throws data_loss, naming it, unless it is an array that can be read, and
  // invalid_argument, naming leaf `i`, if there is none.
  [[nodiscard]] std::size_t required(std::size_t i, std::string_view from,
                                     std::string_view to) const;
  // The same, or nullopt if there is none.
  [[nodiscard]] std::optional<std::size_t> readable(std::size_t i, std::string_view from,
                                                    std::string_view to) const;

 private:
  const Checkpoint& source_;
  TensorList tensors_;
  std::unordered_map<std::string, std::size_t> by_name_;  // full names
};

// Small lists of integers that are stored as leaves: shapes, axes.
class StoredIntegers {
 public:
  explicit StoredIntegers(const NamedLeaves& leaves) : leaves_(leaves) {}
  // Announces a leaf.
  void add(std::size_t index) { wanted_.insert(index); }
  // Reads all of them, as one plan.
  void read();
  // Throws data_loss, naming the leaf, if it is not a list of up to 64 integers.
  [[nodiscard]] const std::vector<std::int64_t>& at(std::size_t index) const;

 private:
  const NamedLeaves& leaves_;
  std::set<std::size_t> wanted_;
  std::map<std::size_t, std::vector<std::int64_t>> found_;
};

}  // namespace cairn::inline v0
