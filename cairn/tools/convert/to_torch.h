// to_torch.h -- writes the leaves of a conversion as a file of PyTorch.
#pragma once

#include <cairn/tools/convert/planned_source.h>

#include <string>

namespace cairn::inline v0 {

// Streams arrays: each is fetched, by its index in the plan, when it is due. Numbers, texts and
// bytes objects are read before.
void write_as_torch(const PlannedSource& from, const std::string& target, const FetchFn& fetch,
                    const ConvertOptions& options);

}  // namespace cairn::inline v0
