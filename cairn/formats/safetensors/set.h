// set.h -- checks a set of safetensors files that cannot be opened.
#pragma once

#include <cairn/verify_report.h>

#include <string>
#include <vector>

namespace cairn::inline v0 {

// Reports what is wrong with each shard that the index at `path` names: it is missing, cannot be
// read, has a damaged header or size, or lacks a tensor. Returns an empty list if `path` is not an
// index, or if all shards are sound.
std::vector<Finding> check_safetensors_set(const std::string& path);

}  // namespace cairn::inline v0
