// records.h -- compares what a checkpoint records about itself with what is in its directory.
#pragma once

#include <cairn/orbax/layout/layout.h>

namespace cairn::inline v0::orbax {

// Reads `_CHECKPOINT_METADATA` into the layout. If it records a tree without items, the checkpoint
// is one tree, whatever is left of it.
void read_records(Layout& layout);

// Fills Layout::lost with what the checkpoint records and lacks, for readers and for verify.
// `aggregate_file` is the name of the msgpack file that may stand in place of `_METADATA`.
void find_lost_parts(Layout& layout, const std::string& aggregate_file);

}  // namespace cairn::inline v0::orbax
