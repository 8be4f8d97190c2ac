// name_match.h -- matches the names that users type against the names of leaves.
#pragma once

#include <cairn/checkpoint.h>

#include <span>
#include <string>
#include <string_view>

namespace cairn::inline v0 {

// Whether a pattern stands for a name: it is the name, or the form in which the name is shown, or a
// glob that matches one of them.
bool name_matches(std::string_view pattern, std::string_view name);
// Whether the globs select an item that has no leaves. A glob for leaves ("config/*") also stands
// for such an item. An empty `include` selects all.
bool selects_item(std::span<const std::string> include, std::span<const std::string> exclude,
                  const std::string& item);

// A pattern for leaves, whose names may be preceded by their items. As in every typed name
// (tree/names.h), '/' also stands for '.', unless the pattern is exactly the name of a leaf.
class NamePattern {
 public:
  // `leaves` are those of the checkpoint.
  NamePattern(std::string pattern, std::span<const TensorInfo> leaves);
  [[nodiscard]] bool matches(const TensorInfo& leaf) const;

 private:
  std::string pattern_;
  bool slash_is_dot_ = false;
};

}  // namespace cairn::inline v0
