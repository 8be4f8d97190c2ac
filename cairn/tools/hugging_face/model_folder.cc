// model_folder.cc -- makes the folder of a model: copies what transformers reads beside the weights
// of a model.

#include <cairn/base/json/json.h>
#include <cairn/base/text.h>
#include <cairn/convert.h>
#include <cairn/inspect.h>
#include <cairn/io/file.h>
#include <cairn/io/tree/file_tree.h>
#include <cairn/kvstore/folders/resolve.h>
#include <cairn/storage/kvstore.h>
#include <cairn/tools/hugging_face/new_folders.h>

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

namespace cairn::inline v0 {
namespace {

constexpr std::uint64_t kLargestAsset = std::uint64_t{1} << 30U;

// Files of configurations, tokenizers and chat templates. Weights and their indices are not among
// them.
bool is_asset(std::string_view name) {
  static constexpr std::array<std::string_view, 6> kNames = {
      "tokenizer.model", "spiece.model",        "merges.txt",
      "vocab.txt",       "chat_template.jinja", "sentencepiece.bpe.model"};
  if (name.ends_with(".index.json")) return false;
  return name.ends_with(".json") || name.starts_with("tokenizer") ||
         name.starts_with("chat_template") || std::ranges::find(kNames, name) != kNames.end();
}

// The configuration of the model without its quantisation.
std::string plain_config(std::string_view text) {
  Json config = parse_json(without_byte_order_mark(text));
  if (config.as_object() == nullptr) throw Error(Code::kDataLoss, "it is not a JSON object");
  JsonObject kept;
  for (const auto& [name, value] : *config.as_object())
    if (name != "quantization_config" && name != "compression_config")
      kept.emplace_back(name, value);
  if (kept.size() == config.as_object()->size()) return std::string(text);
  return to_text(Json(std::move(kept)), JsonStyle::kPretty) + "\n";
}

// Returns the (name, text) pairs of the assets, sorted.
std::vector<std::pair<std::string, std::string>> read_assets(const ModelFolderOptions& options) {
  const std::string from(without_final_slashes(options.assets));
  const std::string config = from + "/config.json";
  const FileTree tree = is_store_url(from) ? tree_around(config, options.store) : FileTree();
  if (!tree.is_file(config))
    throw Error(Code::kNotFound,
                config + ": there is no such file; every model of transformers has one");
  std::vector<std::pair<std::string, std::string>> files;
  for (const std::string& name : tree.names_in(from)) {
    const std::string path = from + "/" + name;
    if (!is_asset(name) || !tree.is_file(path)) continue;
    std::string text(as_text(read_file(tree.open(path), kLargestAsset)));
    if (options.plain && name == "config.json")
      text = with_context([&] { return path; }, [&] { return plain_config(text); });
    files.emplace_back(name, std::move(text));
  }
  return files;
}

bool leads_to_folder(const TransformReport& report, const std::string& target, bool has_assets,
                     const ConvertOptions& convert) {
  constexpr std::string_view kSide = "hf";
  const bool is_model = report.to_side == kSide || (report.to_side.empty() && has_assets);
  return is_model && !convert.format && !try_call([&] { return target_format_of(target); });
}

// The content of a file in the folder. nullopt: there is none. `store`: of the folder; null: it is
// a folder of this machine.
std::optional<Bytes> content_of(const StorePtr& store, const std::string& folder,
                                const std::string& name) {
  if (store) return store->read_at_most(name, kLargestAsset);
  const std::string path = folder + "/" + name;
  if (!file_exists(path)) return std::nullopt;
  return read_file(path, kLargestAsset);
}

// Adds the assets to what is written, but for those that the folder has.
void add_assets(const std::string& folder, const ModelFolderOptions& options,
                ConvertOptions& convert) {
  const StorePtr store = is_store_url(folder) ? open_store(folder, convert.store) : nullptr;
  for (auto& [name, text] : read_assets(options)) {
    if (const auto there = content_of(store, folder, name)) {
      if (as_text(*there) == text) continue;
      if (convert.if_exists == IfExists::kFail)
        throw Error(Code::kAlreadyExists, folder + "/" + name + ": exists with other content");
    }
    convert.safetensors.beside.emplace_back(std::move(name), std::move(text));
  }
}

}  // namespace

ModelFolder::ModelFolder(const TransformReport& report, std::string target,
                         const ModelFolderOptions& options, ConvertOptions& convert)
    : target_(std::move(target)),
      is_folder_(leads_to_folder(report, target_, !options.assets.empty(), convert)) {
  if (!is_folder_) {
    if (!options.assets.empty())
      throw Error(Code::kInvalidArgument,
                  target_ + ": only the folder of a model for transformers has these assets");
    return;
  }
  convert.format = TargetFormat::kSafetensors;
  auto& metadata = convert.safetensors.metadata;
  if (std::ranges::find(metadata, "format", [](const auto& entry) { return entry.first; }) ==
      metadata.end())
    metadata.emplace_back("format", "pt");
  const std::string folder(without_final_slashes(target_));
  target_ = folder + "/model.safetensors";
  if (!options.assets.empty()) add_assets(folder, options, convert);
  if (is_store_url(folder) || convert.dry_run) return;
  made_ = std::make_shared<const NewFolders>(folder);
}

ModelFolder::~ModelFolder() = default;

}  // namespace cairn::inline v0
