// convert_msgpack.h -- the leaves of a conversion as a msgpack file.
#pragma once

#include <cairn/tools/convert_plan.h>

#include <string>

namespace cairn {

struct PlannedSource {
  const Checkpoint& source;
  const ConvertPlan& plan;
};

// Streams: arrays are fetched (by their index in the plan) when they are due; scalars and texts are read before.
void write_as_msgpack(const PlannedSource& from, const std::string& target, const FetchFn& fetch, const ConvertOptions& options);

}  // namespace cairn
