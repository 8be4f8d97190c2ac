// leaf_names.h -- the names and paths that the leaves of a conversion get.
#pragma once

#include <cairn/convert.h>
#include <cairn/tree/transform/regex.h>

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cairn::inline v0 {

// What the options make of the names.
class LeafNames {
 public:
  // Throws invalid_argument for a bad regular expression or template.
  explicit LeafNames(const ConvertOptions& options);

  struct Name {
    std::string name;
    KeyPath path;
    bool renamed = false;  // by a rule
    bool nested = false;   // the path is not that of the source
  };
  // The new name of a leaf that is stored under this name and path.
  Name rename(const std::string& stored, KeyPath path);
  // Takes the name for a leaf of a tree of the target. Throws invalid_argument if another leaf of
  // the tree has the name; `old` is the leaf in messages.
  void take(const std::string& tree, const Name& name, const std::string& old);
  // Throws invalid_argument if a path is both a leaf and a container of leaves.
  void check_containers() const;

 private:
  struct Leaf {
    KeyPath path;
    std::string old;
  };

  std::vector<std::pair<Regex, std::string>> rules_;  // expressions and templates
  std::function<std::string(std::string_view)> function_;
  std::string separator_;
  // By tree and new name.
  std::map<std::pair<std::string, std::string>, Leaf> taken_;
};

}  // namespace cairn::inline v0
