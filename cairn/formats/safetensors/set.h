// set.h -- what a set of safetensors files has beside its tensors; and checks a set that cannot be
// opened.
#pragma once

#include <cairn/checkpoint.h>
#include <cairn/verify_report.h>

#include <string>
#include <utility>
#include <vector>

namespace cairn::inline v0 {

// Reports what is wrong with each shard that the index at `path` names: it is missing, cannot be
// read, has a damaged header or size, or lacks a tensor. Returns an empty list if `path` is not an
// index, or if all shards are sound.
std::vector<Finding> check_safetensors_set(const std::string& path);

// The entries of __metadata__ of an open file. Of a set: those of all its files; where two files
// disagree about a key, the first file counts. None for a checkpoint of another format.
std::vector<std::pair<std::string, std::string>> safetensors_metadata(const CheckpointInfo& info);

}  // namespace cairn::inline v0
