// copies.h -- finds everything that may hold a whole copy of the leaves of a damaged checkpoint.
#pragma once

#include <cairn/checkpoint.h>
#include <cairn/maintain.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace cairn::inline v0 {

// A checkpoint that holds some of the leaves.
struct LeafCopy {
  std::shared_ptr<const Checkpoint> checkpoint;
  std::string text;    // as RecoveredLeaf::copy
  std::string prefix;  // what its leaves' full names lack: "item/"
  bool is_own = true;  // a part of the damaged checkpoint
  // Whether it says which leaves the checkpoint has. False: it may have more, or fewer.
  bool lists_leaves = false;
  // Nothing says that it is a version of the checkpoint, or how its values are stored: they cannot
  // be checked.
  bool is_found = false;
  bool lacks_names = false;             // the checkpoint may have more leaves, whose names are lost
  std::vector<std::string> notes = {};  // of opening
};

// Opens copies when those before them do not suffice. Throws if they cannot be opened.
using CopyOpener = std::function<std::vector<LeafCopy>()>;

// Everything that was found at a path.
struct FoundCopies {
  std::vector<LeafCopy> opened;  // the checkpoint as it is, if it opens
  std::vector<CopyOpener> others;
  std::vector<std::string> notes;
  std::optional<Error> why_closed;  // why the checkpoint does not open as it is
};

// Looks for copies at the path, best first. Throws if nothing is there.
FoundCopies find_copies(const std::string& path, const OpenOptions& options);

}  // namespace cairn::inline v0
