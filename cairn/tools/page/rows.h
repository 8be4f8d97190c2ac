// rows.h -- the leaves that the page lists.
#pragma once

#include <cairn/base/json/json.h>
#include <cairn/checkpoint.h>
#include <cairn/tools/page/modules.h>

#include <cstddef>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

namespace cairn::inline v0::page {

// The leaves listed, in the order of the tree. A page has at most 20,000: the largest.
class Rows {
 public:
  Rows(TensorList leaves, std::vector<std::size_t> selected);

  [[nodiscard]] std::size_t size() const { return indices_.size(); }
  // The number of the leaf in the checkpoint.
  [[nodiscard]] std::size_t index(std::size_t row) const { return indices_[row]; }
  [[nodiscard]] const TensorInfo& leaf(std::size_t row) const { return leaves_[indices_[row]]; }
  // The row of a leaf by its full name, or by its name.
  [[nodiscard]] std::optional<std::size_t> find(const std::string& name) const;
  // Bytes of the arrays with statistics.
  [[nodiscard]] std::uint64_t value_bytes() const;

  // The data: "rows" (columns), "layouts" and "shardings", which many rows share.
  void add_json(const ModuleList& modules, JsonObject& data) const;

 private:
  TensorList leaves_;
  std::vector<std::size_t> indices_;
  std::unordered_map<std::string, std::size_t> by_name_;
};

// Whether statistics of the leaf can be computed.
bool has_numbers(const TensorInfo& leaf);

}  // namespace cairn::inline v0::page
