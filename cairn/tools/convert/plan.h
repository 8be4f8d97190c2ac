// plan.h -- plans a conversion: decides and checks what it will write before any byte is copied.
#pragma once

#include <cairn/convert.h>
#include <cairn/tensor_source.h>
#include <cairn/tools/convert/kept_items.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace cairn::inline v0 {

// A new layout for an array, in place of the stored one.
struct Relayout {
  Shape piece;           // shape of the pieces; empty: as stored
  std::string sharding;  // JSON for _sharding; "": none, or as stored
};

// A checked plan.
struct ConvertPlan {
  // the plan fills format, skipped, renamed, scalars, cast, tensors and bytes
  ConvertReport report;
  std::vector<std::size_t> indices;   // into the source's tensors
  std::vector<TensorSource> targets;  // the same leaves, as they will be written
  std::vector<KeyPath> paths;         // of the same leaves, renamed; for formats that hold a tree
  std::vector<Relayout> relayouts;    // of the same leaves; empty: all keep their layout
  bool nested = false;                // whether paths differ from those of the source
  std::optional<KeptItems> items;     // for a target that keeps the items of its source
  // The recorded types of the containers of Orbax trees that the target keeps, by the item's name
  // in the source.
  std::map<std::string, Tree> types;
  // The recorded types of the keys of these trees' dicts, by the item's name.
  std::map<std::string, std::vector<DictKeyTypes>> key_types;
  std::uint64_t memory = 0;  // for the writer; casts get the rest of the given memory
};

// Plans a conversion. Throws invalid_argument for an unknown format, a bad regular expression,
// names that collide, and leaves that the target cannot hold (it names all of them;
// skip_unsupported skips some kinds). Throws not_found if include and exclude select nothing of a
// checkpoint that has leaves.
ConvertPlan plan_conversion(const Checkpoint& source, const std::string& target,
                            const ConvertOptions& options);

// Throws failed_precondition, with the sizes, for a plan that cannot be carried out: the target's
// file system has too little space, or the arrays are too large to read.
void check_capacity(const Checkpoint& source, const std::string& target, const ConvertPlan& plan,
                    const Compression& compression);

}  // namespace cairn::inline v0
