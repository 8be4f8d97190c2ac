// model_maps.h -- maps between the names and shapes of one model in two programs, such as MaxText and
// Hugging Face's transformers (docs/model-maps.md).
#pragma once

#include <cairn/convert.h>

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#pragma GCC visibility push(default)
namespace cairn::inline v0 {

// Something that only the user knows about a model.
struct ModelMapOption {
  std::string name;
  std::vector<std::string> values;  // those that are allowed, as JSON; empty: any
  std::string default_value;        // an expression
  std::string help;
};
// What a map says about itself.
struct ModelMapInfo {
  std::string name;   // "llama", or the path of a file
  std::string title;  // for people
  std::string first_side, second_side;
  std::vector<ModelMapOption> options;
  std::vector<std::string> sources;  // where its arithmetic was read
  std::vector<std::string> tested;   // what was run
};
// The maps that are a part of Cairn, sorted by name.
std::vector<ModelMapInfo> model_maps();
// The map of that name, or in a file: `map` is a path if it has a '/' or ends with ".json". Throws
// not_found with the names that there are, and invalid_argument for a file that is not a map.
ModelMapInfo model_map(const std::string& map);

// Maps as a JSON list (docs/cli.md).
std::string model_maps_json(const std::vector<ModelMapInfo>& maps);

// Applies a map to `source` as transform_checkpoint() applies rules. `map` as in model_map(). Throws
// invalid_argument that lists leaves which are missing, leaves that no rule takes, and shapes that
// do not fit the values of config.json.
Transformed apply_model_map(std::shared_ptr<const Checkpoint> source, const std::string& map,
                            const TransformOptions& options = {});

// Options of ModelFolder.
struct ModelFolderOptions {
  // Folder of another copy of the model, or a URL of one. All that transformers reads beside the
  // weights is copied from there: *.json but the indices of weights, and the files of tokenizers
  // and chat templates. Empty: nothing is copied.
  std::string assets = {};
  bool plain = false;       // without `quantization_config` in config.json
  StoreOptions store = {};  // how to read the assets, if they are at a URL
};
// The place for the result of rules that may lead to the folder of a model, as transformers'
// from_pretrained() reads it. That is what `target` is if the rules lead to the side "hf" and its
// name has no known extension; it may be a URL. Construct it, convert() to target(), and call
// finish().
class ModelFolder {
 public:
  // `report`: of the rules. For a folder, sets the format (safetensors) and the metadata {"format",
  // "pt"} in `convert`, reads the assets and makes the folder; the last not with convert.dry_run.
  // Throws not_found if the assets have no config.json, already_exists if the folder has other files
  // of their names (unless convert.if_exists allows it), unimplemented for assets and a folder at a
  // URL, and invalid_argument for assets and a target that is not such a folder.
  ModelFolder(const TransformReport& report, std::string target, const ModelFolderOptions& options,
              ConvertOptions& convert);
  ModelFolder(const ModelFolder&) = delete;
  ModelFolder& operator=(const ModelFolder&) = delete;
  // Removes the folders that it has made and that are empty.
  ~ModelFolder();

  // Where convert() writes: the path of the weights in the folder, or the target itself.
  [[nodiscard]] const std::string& target() const { return target_; }
  [[nodiscard]] bool is_folder() const { return is_folder_; }
  // Writes the assets, one after another. Of several processes, one calls it.
  void finish();

 private:
  std::string target_, folder_;
  bool is_folder_ = false;
  IfExists if_exists_ = IfExists::kFail;
  std::vector<std::pair<std::string, std::string>> assets_;  // (path, text)
  std::vector<std::string> made_;                            // folders, the outermost first
};

}  // namespace cairn::inline v0
#pragma GCC visibility pop
