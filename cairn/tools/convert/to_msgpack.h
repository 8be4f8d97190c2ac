// to_msgpack.h -- the leaves of a conversion as a msgpack file.
#pragma once

#include <cairn/tools/convert/planned_source.h>

#include <string>

namespace cairn {

// Streams: arrays are fetched (by their index in the plan) when they are due; scalars and texts are
// read before.
void write_as_msgpack(const PlannedSource& from, const std::string& target, const FetchFn& fetch,
                      const ConvertOptions& options);

}  // namespace cairn
