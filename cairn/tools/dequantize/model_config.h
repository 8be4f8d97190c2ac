// model_config.h -- what the config.json of a Hugging Face model says about its weights.
#pragma once

#include <cairn/storage/store_options.h>
#include <cairn/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace cairn::inline v0 {

struct ModelConfig {
  std::optional<DType> dtype = {};  // of the model's weights
  std::string method = {};  // "fp8", "mxfp4", "compressed-tensors", "gptq"; "": not quantised
  // Extents that share a scale, along the last axes: of float8 and of packed integers. {}: unknown
  Shape blocks = {}, groups = {};
  std::optional<std::int64_t> bits = {};  // of a packed integer
};

// Parses the text of a config.json. Members that it does not know are ignored. Throws data_loss for
// text that is not JSON, and for blocks that are not positive numbers.
ModelConfig parse_model_config(std::string_view json);

// Reads the config.json in the folder of a checkpoint, or beside its file. `path`: as
// CheckpointInfo::path. Defaults if there is none; it is not looked for on web servers, which
// cannot list a folder.
ModelConfig read_model_config(const std::string& path, const StoreOptions& store);

}  // namespace cairn::inline v0
