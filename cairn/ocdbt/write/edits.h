// edits.h -- changes in the order in which they came, and the final form of them all.
#pragma once

#include <cairn/ocdbt/write/entries.h>

#include <vector>

namespace cairn::ocdbt {

struct RangeRemoval {
  KeyRange range;
  std::uint64_t sequence = 0;
};

// What one worker has asked for.
struct EditLog {
  std::vector<Edit> edits;
  std::vector<RangeRemoval> removed;
};

// Empties the logs. Of changes to one key the last one stays; a range removes what was written to
// it before.
Edits finalized(const std::vector<EditLog*>& logs);

}  // namespace cairn::ocdbt
