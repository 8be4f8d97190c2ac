// step_links.h -- the steps that symbolic links of other steps lead to. They must not be removed
// while the links stay.
#pragma once

#include <cairn/io/directory.h>

#include <map>
#include <set>
#include <string>

namespace cairn::inline v0::orbax {

// Finds the links in the entries of one root.
class StepLinks {
 public:
  // Of the folders `going` of the root: those that links lead to that stay, with the path of such a
  // link. A link stays if it is an entry of the root, or lies in a step that stays. A folder that
  // stays because of a link may have links, too. Only the folders `steps` are searched for links.
  std::map<std::string, std::string> find_needed(const Directory& root,
                                                 const std::set<std::string>& steps,
                                                 const std::set<std::string>& going);
  // The folder was written by this process, which writes no links. It is not searched.
  void add_without_links(const std::string& folder) { without_links_.insert(folder); }
  // Others may have changed the steps.
  void forget() { without_links_.clear(); }

 private:
  std::set<std::string> without_links_;  // found or known
};

}  // namespace cairn::inline v0::orbax
