// to_tensorflow.h -- writes the leaves of a conversion as a TensorFlow checkpoint.
#pragma once

#include <cairn/tools/convert/planned_source.h>

#include <string>
#include <vector>

namespace cairn::inline v0 {

// The prefix that a target names; the target may also be the name of the index.
std::string tensorflow_prefix(const std::string& target);

// Streams arrays. Reads strings before, and also the object graph of a source that is a TensorFlow
// checkpoint. Returns the files.
std::vector<std::string> write_as_tensorflow(const PlannedSource& from, const std::string& target,
                                             const FetchFn& fetch, const ConvertOptions& options);

}  // namespace cairn::inline v0
