// leaf_names.h -- the names and paths that the leaves of a conversion get.
#pragma once

#include <cairn/convert.h>
#include <cairn/tree/transform/regex.h>

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cairn::inline v0 {

// What the options make of the names.
class LeafNames {
 public:
  // `slashes_in_names`: names of the source have a '/', so a '/' of an expression means only
  // itself. Throws invalid_argument for a bad regular expression or template.
  LeafNames(const ConvertOptions& options, bool slashes_in_names);

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

  struct Rule {
    Regex regex;
    std::string text;             // the template
    std::optional<Regex> dotted;  // the expression with '/' for '.', too, if it has one
    // The new name. Where only `dotted` matches, '/' means '.' in the template, too. A name that is
    // not UTF-8, and that nothing matches, is matched in the escaped form in which it is shown.
    std::string apply(const std::string& name);
    std::string replace(const std::string& name);
  };

  std::vector<Rule> rules_;
  std::function<std::string(std::string_view)> function_;
  std::string separator_;
  // By tree and new name.
  std::map<std::pair<std::string, std::string>, Leaf> taken_;
};

// What holds the name of a leaf in a target.
enum class NameHolder : std::uint8_t {
  kBytes,      // any bytes
  kText,       // UTF-8
  kZipMember,  // UTF-8 without NUL bytes
  kFolder,     // a path below the checkpoint, from which Orbax restores
};

// Why the target cannot hold a leaf of this name; "" if it can.
std::string name_obstacle(const LeafNames::Name& named, NameHolder holder);

}  // namespace cairn::inline v0
