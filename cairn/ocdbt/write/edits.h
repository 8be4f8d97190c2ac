// edits.h -- collects changes in call order and reduces them to their net effect.
#pragma once

#include <cairn/ocdbt/write/entries.h>

#include <vector>

namespace cairn::inline v0::ocdbt {

// The removal of all keys in a range.
struct RangeRemoval {
  KeyRange range;
  std::uint64_t sequence = 0;
};

// The changes of one stream.
struct EditLog {
  std::vector<Edit> edits;
  std::vector<RangeRemoval> removed;
};

// Empties the logs and returns their net effect. For each key the last change counts. A range
// removal removes only what was written before it.
Edits finalized(const std::vector<EditLog*>& logs);

}  // namespace cairn::inline v0::ocdbt
