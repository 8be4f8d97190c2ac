// output_names.h -- which files belong to one output: a single file, or a set of data files and the
// index that names them.
//
//   <prefix>.index                        of <prefix>.data-00000-of-00002, ... TensorFlow
//   <stem>.safetensors.index.json         of <stem>-00001-of-00002.safetensors, ... safetensors
//   <stem>.cairn-tmp-1f-00001-of-00002.safetensors    a shard while a set of its name is replaced
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace cairn {

// The path whose SaveLock every save that may write the file takes: the index of its set. A single
// safetensors file has the lock of the set that could take its place. Other files have their own.
std::string save_lock_path(std::string_view file);

// Whether a set of files is complete when this one has its name.
bool is_set_index(std::string_view file);

std::string_view safetensors_stem(std::string_view path);  // without ".safetensors", if it has that
std::string safetensors_index_path(std::string_view stem);
// shard: from 0 on
std::string safetensors_shard_path(std::string_view stem, std::size_t shard, std::size_t count);
// The name of a shard under which it is complete before its final name is free.
std::string safetensors_interim_path(std::string_view stem, std::string_view tag, std::size_t shard,
                                     std::size_t count);
// Whether the file's name is an interim one of that stem.
bool is_safetensors_interim(std::string_view file, std::string_view stem);

}  // namespace cairn
