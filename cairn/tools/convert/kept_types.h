// kept_types.h -- the types of containers (tuples and named tuples) that Orbax records beside a
// tree, in a conversion from Orbax to Orbax.
#pragma once

#include <cairn/tools/convert/plan.h>
#include <cairn/tree/tree_metadata.h>

#include <span>
#include <string>

namespace cairn::inline v0 {

// Adds to the plan the recorded types of each tree of the source that the target keeps with all its
// leaves and their paths. Adds the others to the report: the types do not fit other leaves.
void keep_types(const Checkpoint& source, ConvertPlan& plan);

// Returns the text that records the types of a tree whose leaves are now these.
std::string types_text(const Tree& types, std::span<const LeafMetadata> leaves);

}  // namespace cairn::inline v0
