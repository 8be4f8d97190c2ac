// plan.h -- what a conversion will write, decided and checked before the first byte moves.
#pragma once

#include <cairn/convert.h>
#include <cairn/tensor_source.h>

#include <cstddef>
#include <string>
#include <vector>

namespace cairn {

// How an array is laid out anew, instead of as it was stored.
struct Relayout {
  Shape piece;           // that it is cut into; empty: as it was stored
  std::string sharding;  // JSON for _sharding; "": none, or as it was stored
};

struct ConvertPlan {
  // format, skipped, renamed, scalars, cast, tensors and bytes are filled
  ConvertReport report;
  std::vector<std::size_t> indices;   // into the source's tensors
  std::vector<TensorSource> targets;  // the same leaves as they will be written
  std::vector<KeyPath> paths;         // of the same leaves, renamed; for formats that hold a tree
  std::vector<Relayout> relayouts;    // of the same leaves, or none: nothing is laid out anew
  std::uint64_t memory = 0;           // for the writer; the rest of what was given is for casts
};

bool is_orbax_format(std::string_view format);

// Throws invalid_argument for an unknown format, a bad regular expression, leaves the target cannot
// hold (all of them named, unless skip_unsupported leaves out some of them) and names that collide;
// not_found where include and exclude select nothing of a checkpoint that has leaves.
ConvertPlan plan_conversion(const Checkpoint& source, const std::string& target,
                            const ConvertOptions& options);

// Throws failed_precondition, with the sizes, for a plan that cannot be carried out: the target's
// file system has no room for it, or its arrays are too large to be read.
void check_capacity(const Checkpoint& source, const std::string& target, const ConvertPlan& plan,
                    const Compression& compression);

}  // namespace cairn
