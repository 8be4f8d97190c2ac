// set.h -- the check of a set of safetensors files that cannot be opened.
#pragma once

#include <cairn/verify_report.h>

#include <string>
#include <vector>

namespace cairn {

// What is wrong with each shard that the index at `path` names: one that is missing, cannot be
// read, has a damaged header or size, or lacks a tensor. Empty if `path` is not an index, or if all
// shards are as they should be.
std::vector<Finding> check_safetensors_set(const std::string& path);

}  // namespace cairn
