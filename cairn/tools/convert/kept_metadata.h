// kept_metadata.h -- the custom metadata of a source that a target keeps.
#pragma once

#include <cairn/checkpoint.h>
#include <cairn/tools/convert/plan.h>

#include <string>
#include <utility>
#include <vector>

namespace cairn::inline v0 {

// The entries of the source's metadata that __metadata__ of a safetensors file can hold: those whose
// values are strings.
std::vector<std::pair<std::string, std::string>> text_metadata(const CheckpointInfo& info);

// The metadata that a tree made from the source gets in an Orbax checkpoint: a JSON object, or "".
std::string tree_metadata(const CheckpointInfo& info);

// Adds the metadata that a target outside Orbax loses to the report. `set`: the entries of
// __metadata__ that the options set.
void report_lost_metadata(const Checkpoint& source,
                          const std::vector<std::pair<std::string, std::string>>& set,
                          ConvertReport& report);

}  // namespace cairn::inline v0
