#include <cairn/formats/trainer_folder.h>

#include <cairn/base/errors.h>
#include <cairn/formats/detect.h>
#include <cairn/formats/files/listed_names.h>
#include <cairn/formats/safetensors/model_folder.h>

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

namespace cairn::inline v0 {
namespace {

constexpr std::string_view kFsdpFile = "pytorch_model_fsdp.bin";
constexpr std::string_view kFsdpFolder = "pytorch_model_fsdp_0";
constexpr std::string_view kLightning = ".ckpt";
constexpr std::string_view kLightningLast = "last.ckpt";
constexpr std::string_view kPytorchIndex = ".bin.index.json";

bool has_name(const std::vector<std::string>& names, std::string_view name) {
  return std::ranges::find(names, name) != names.end();
}

bool is_safetensors(std::string_view name) {
  return name.ends_with(".safetensors") || is_index_name(name);
}

// A file of a set: pytorch_model-00001-of-00002.bin.
bool is_part_of_set(std::string_view name) {
  return name.starts_with("pytorch_model-") && name.find("-of-") != std::string_view::npos;
}

bool is_pytorch_name(std::string_view name) {
  constexpr std::string_view kPytorchEndings[] = {".pt",  ".pth", ".ckpt",
                                                  ".bin", ".pkl", kPytorchIndex};
  return !is_part_of_set(name) &&
         std::ranges::any_of(kPytorchEndings,
                             [&](std::string_view ending) { return name.ends_with(ending); });
}

// A Distributed Checkpoint that its save has ended.
bool is_distributed_item(const FileTree& tree, const std::string& path) {
  return tree.exists(path + "/.metadata");
}

bool is_pytorch(const FileTree& tree, const std::string& path) {
  return tree.is_folder(path) || detect_file(tree, path) == Format::kPytorch;
}

}  // namespace

std::vector<std::string> trainer_items(const FileTree& tree, const std::string& folder) {
  std::vector<std::string> items;
  bool has_safetensors = false;
  for (const std::string& name : tree.names_in(folder)) {
    if (name.starts_with('.')) continue;
    const std::string path = folder + "/" + name;
    if (tree.is_folder(path) ? is_distributed_item(tree, path) : is_pytorch_name(name))
      items.push_back(name);
    has_safetensors = has_safetensors || is_safetensors(name);
  }
  if (has_safetensors)
    for (std::string& name : safetensors_models(tree, folder)) items.push_back(std::move(name));
  std::ranges::sort(items);
  return items;
}

std::optional<std::string> find_trainer_model(const FileTree& tree, const std::string& folder,
                                              const std::vector<std::string>& items) {
  for (const std::string_view name : {kFsdpFile, kFsdpFolder})
    if (has_name(items, name)) return std::string(name);
  std::vector<std::string> found;
  for (const std::string& name : items)
    if (name.ends_with(kLightning) && is_pytorch(tree, folder + "/" + name)) found.push_back(name);
  if (found.empty()) return std::nullopt;
  if (found.size() == 1) return found.front();
  if (has_name(found, kLightningLast)) return std::string(kLightningLast);
  invalid_argument(fmt::format(
      "{}: has {} checkpoints, and none is {}: {}; choose one with --item (OpenOptions::item)",
      folder, found.size(), kLightningLast, listed_names(found)));
}

}  // namespace cairn::inline v0
