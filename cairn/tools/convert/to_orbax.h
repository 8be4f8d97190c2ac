// to_orbax.h -- writes the leaves of a conversion as an Orbax checkpoint.
#pragma once

#include <cairn/distributed/consistency.h>
#include <cairn/tools/convert/plan.h>

#include <string>

namespace cairn::inline v0 {

// Streams: elements are read and written a batch at a time. Arrays keep their kind, sharding and
// PRNG implementation. Returns what this process compressed.
CompressionReport write_orbax(const Checkpoint& source, const ConvertPlan& plan,
                              const std::string& target, const ConvertOptions& options);

// Adds the options that only Orbax checkpoints have to the consistency check.
void add_orbax_options(const OrbaxTarget& options, distributed::ConsistencyCheck& check);

}  // namespace cairn::inline v0
