// to_torch.h -- writes the leaves of a conversion for PyTorch: as a file of torch.save, or as a
// Distributed Checkpoint.
#pragma once

#include <cairn/tools/convert/planned_source.h>

#include <string>

namespace cairn::inline v0 {

// Streams arrays: each is fetched, by its index in the plan, when it is due. Numbers, texts and
// bytes objects are read before.
void write_as_torch(const PlannedSource& from, const std::string& target, const FetchFn& fetch,
                    const ConvertOptions& options);
// The plan's relayouts, if it has any, are the shapes of the chunks.
void write_as_dcp(const PlannedSource& from, const std::string& target, const FetchFn& fetch,
                  const ConvertOptions& options);

}  // namespace cairn::inline v0
