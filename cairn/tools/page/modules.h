// modules.h -- the modules of a checkpoint as a list, for the treemap.
#pragma once

#include <cairn/base/json/json.h>
#include <cairn/checkpoint.h>
#include <cairn/inspect.h>

#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cairn::inline v0::page {

// Modules are numbered, a parent before its children; number 0 is the whole checkpoint. There are
// at most 4,000: the deepest levels are left out where there are more, and their leaves belong to
// the modules above.
class ModuleList {
 public:
  // Of usage() with a depth of 64. `usage` must outlive the list.
  explicit ModuleList(const Usage& usage);

  // The deepest module of the list that has the leaf.
  [[nodiscard]] std::size_t module_of(const TensorInfo& leaf) const;
  // Columns: name, parent, bytes, leaves.
  [[nodiscard]] Json json() const;

 private:
  void add(const UsageNode& node, std::size_t parent, std::size_t levels);

  std::vector<const UsageNode*> nodes_;
  std::vector<std::size_t> parents_;
  std::map<std::pair<std::size_t, std::string_view>, std::size_t> children_;  // (parent, name)
};

}  // namespace cairn::inline v0::page
