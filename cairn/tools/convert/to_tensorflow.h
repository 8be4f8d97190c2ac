// to_tensorflow.h -- the leaves of a conversion as a TensorFlow checkpoint.
#pragma once

#include <cairn/tools/convert/planned_source.h>

#include <string>
#include <vector>

namespace cairn {

// The prefix that a target stands for, which may be given as the name of its index.
std::string tensorflow_prefix(const std::string& target);

// Streams arrays; strings, and the object graph of a source that is a TensorFlow checkpoint, are
// read before. Returns the files.
std::vector<std::string> write_as_tensorflow(const PlannedSource& from, const std::string& target,
                                             const FetchFn& fetch, const ConvertOptions& options);

}  // namespace cairn
