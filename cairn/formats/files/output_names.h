// output_names.h -- which files belong to one output: a single file, or a set of data files and the
// index that names them.
//
//   <prefix>.index                    index of <prefix>.data-00000-of-00002, ... TensorFlow
//   <stem>.safetensors.index.json     index of <stem>-00001-of-00002.safetensors, ... safetensors
//   <stem>.cairn-tmp-1f-00001-of-00002.safetensors   interim name of a shard: used while the new
//                                     set replaces one that has the same names
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace cairn::inline v0 {

// The path of the SaveLock that every save which may write `file` takes. For a file of a set this
// is the path of the set's index. A single safetensors file takes the lock of the set that could
// replace it. Every other file has its own lock.
std::string save_lock_path(std::string_view file);

// Whether `file` is the index of a set. A set is complete as soon as its index has its name.
bool is_set_index(std::string_view file);

std::string_view safetensors_stem(std::string_view path);  // without ".safetensors", if it ends so
// The path of the index: "<stem>.safetensors.index.json".
std::string safetensors_index_path(std::string_view stem);
// shard: the number of the shard, from 0 to count - 1.
std::string safetensors_shard_path(std::string_view stem, std::size_t shard, std::size_t count);
// The interim name of a shard: the complete file has it until its final name is free.
std::string safetensors_interim_path(std::string_view stem, std::string_view tag, std::size_t shard,
                                     std::size_t count);
// Whether `file` is the name of a shard: of any set, or of the set with this stem.
bool is_safetensors_shard(std::string_view file);
bool is_safetensors_shard(std::string_view file, std::string_view stem);
// Whether `file` is an interim name of that stem.
bool is_safetensors_interim(std::string_view file, std::string_view stem);
// The final name that an interim name stands for; nullopt for any other name. `file` has no folder.
std::optional<std::string> final_name_of_interim(std::string_view file);

}  // namespace cairn::inline v0
