// listed_names.h -- lists of names for messages.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

namespace cairn::inline v0 {

// Returns the first names of a list, and how many others there are: "a, b and 5 more".
inline std::string listed_names(const std::vector<std::string>& names, std::size_t most = 10) {
  std::string text;
  for (std::size_t i = 0; i < std::min(names.size(), most); ++i)
    text += (i == 0 ? "" : ", ") + names[i];
  if (names.size() > most) text += " and " + std::to_string(names.size() - most) + " more";
  return text;
}

}  // namespace cairn::inline v0
