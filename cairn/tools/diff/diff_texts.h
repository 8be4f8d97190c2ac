// diff_texts.h -- compares the items of two checkpoints that are one text.
#pragma once

#include <cairn/diff.h>

namespace cairn::inline v0 {

// Adds a leaf for each such item that the options select, if both checkpoints are steps of Orbax:
// the other formats have no such items, and a conversion to them reports what it leaves out.
void compare_texts(const Checkpoint& a, const Checkpoint& b, const DiffOptions& options,
                   DiffReport& report);

}  // namespace cairn::inline v0
