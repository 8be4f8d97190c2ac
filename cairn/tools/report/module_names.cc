// module_names.cc -- splits the name of a leaf.
#include <cairn/tools/report/module_names.h>

#include <algorithm>
#include <string_view>

namespace cairn::inline v0 {

std::vector<std::string> module_names(const TensorInfo& t) {
  std::vector<std::string> parts;
  if (t.item) parts.push_back(*t.item);
  for (const Key& key : t.path) {
    std::string_view rest = key.text;
    if (rest.starts_with('.')) {  // TensorFlow's ".ATTRIBUTES", ".OPTIMIZER_SLOT"
      const std::size_t end = std::min(rest.find_first_of("./", 1), rest.size());
      parts.emplace_back(rest.substr(0, end));
      rest.remove_prefix(std::min(end + 1, rest.size()));
    }
    while (!rest.empty()) {
      const std::size_t end = std::min(rest.find_first_of("./"), rest.size());
      if (end > 0) parts.emplace_back(rest.substr(0, end));
      rest.remove_prefix(std::min(end + 1, rest.size()));
    }
  }
  return parts;
}

}  // namespace cairn::inline v0
