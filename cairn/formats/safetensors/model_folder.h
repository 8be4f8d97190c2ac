// model_folder.h -- finds the model in a folder of safetensors files, as Hugging Face writes them:
// model.safetensors, or model.safetensors.index.json and its shards.
#pragma once

#include <cairn/checkpoint.h>
#include <cairn/io/tree/file_tree.h>

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cairn::inline v0 {

// The model of a folder.
struct SafetensorsModel {
  std::string path;                  // of the index or the single file; of sharded files the folder
  std::vector<std::string> unread;   // paths of the folder's other safetensors files
  std::vector<std::string> sharded;  // names of the files of several processes
};

// Whether the name is that of an index: "<stem>.safetensors.index.json".
bool is_index_name(std::string_view path);

// The names of all models in a folder: the indexes, then the files that no index names and that do
// not have the name of a shard of one.
std::vector<std::string> safetensors_models(const FileTree& tree, const std::string& folder);
// Finds the model called "model", or else the only one in the folder. nullopt: the folder has no
// safetensors files. Throws invalid_argument, listing them, if it has several models of equal
// right: nobody can tell which one is meant. Throws it also for shards without their index.
std::optional<SafetensorsModel> find_safetensors_model(const FileTree& tree,
                                                       const std::string& folder);
std::unique_ptr<Checkpoint> open_safetensors(const FileTree& tree, const SafetensorsModel& model,
                                             const OpenOptions& options);

}  // namespace cairn::inline v0
