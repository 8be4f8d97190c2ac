// target_kind.h -- what a repaired checkpoint is written as: by default, the same kind of format.
#pragma once

#include <cairn/checkpoint.h>
#include <cairn/convert.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace cairn::inline v0 {

// The format that is like that of a checkpoint.
TargetFormat kind_of(const Checkpoint& checkpoint);

// The size of the largest file of a set of safetensors files; nullopt for anything else.
std::optional<std::uint64_t> largest_shard(const Checkpoint& checkpoint, const StoreOptions& store);

// The items of an Orbax checkpoint that are not trees, and in whose folder the file lies.
std::vector<std::string> items_with(const Checkpoint& checkpoint, const std::string& file);

}  // namespace cairn::inline v0
