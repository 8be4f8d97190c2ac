// kept_types.h -- what a conversion keeps beside the leaves: the types of containers (tuples and
// named tuples) that Orbax records, and custom metadata.
#pragma once

#include <cairn/tools/convert/plan.h>
#include <cairn/tree/metadata/tree_metadata.h>

#include <span>
#include <string>

namespace cairn::inline v0 {

// Adds to the plan the recorded types of each tree of the source that the target keeps with all its
// leaves and their paths, and those of the keys of each dict that it keeps. Adds the others to the
// report: the types do not fit other leaves.
void keep_types(const Checkpoint& source, ConvertPlan& plan);

// Returns the text that records the types of a tree whose leaves are now these.
std::string types_text(const Tree& types, std::span<const LeafMetadata> leaves);

// The entries of the source's metadata that __metadata__ of a safetensors file can hold: those
// whose values are strings.
std::vector<std::pair<std::string, std::string>> text_metadata(const CheckpointInfo& info);

// The metadata that an Orbax checkpoint made from the source gets: a JSON object, or "".
std::string checkpoint_metadata(const CheckpointInfo& info);

// Adds the metadata that a target outside Orbax loses to the report. `set`: the entries of
// __metadata__ that the options set.
void report_lost_metadata(const Checkpoint& source,
                          const std::vector<std::pair<std::string, std::string>>& set,
                          ConvertReport& report);

}  // namespace cairn::inline v0
