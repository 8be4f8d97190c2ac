// model_folder.cc -- lists a folder, and leaves out the shards that its indexes name.
#include <cairn/formats/safetensors/model_folder.h>

#include <cairn/base/errors.h>
#include <cairn/base/text/time_text.h>
#include <cairn/formats/files/output_names.h>
#include <cairn/formats/safetensors/header.h>
#include <cairn/formats/safetensors/sharded_tensors.h>
#include <cairn/io/temporary_name.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

namespace cairn::inline v0 {
namespace {

constexpr std::string_view kModelSuffix = ".safetensors";
constexpr std::string_view kModelIndexSuffix = ".safetensors.index.json";
constexpr std::string_view kModelFile = "model.safetensors";
constexpr std::string_view kModelIndex = "model.safetensors.index.json";
constexpr std::size_t kMostModels = 8;

using Names = std::vector<std::string>;

bool has_model(const Names& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

std::string models_text(const FileTree& tree, const std::string& folder, const Names& names) {
  std::vector<std::string> texts;
  for (const std::string& name : names) {
    if (texts.size() == kMostModels) break;
    const auto file = try_call([&] { return tree.open(folder + "/" + name); });
    texts.push_back(
        file ? fmt::format("{} (changed {})", name, time_text(file.value().modified_ns())) : name);
  }
  return fmt::format(
      "{}{}", fmt::join(texts, ", "),
      names.size() > kMostModels ? fmt::format(" and {} more", names.size() - kMostModels) : "");
}

// Two models called "model": the message says which of them is newer.
[[noreturn]] void refuse_both(const FileTree& tree, const std::string& folder) {
  const auto time_of = [&](std::string_view name) {
    return tree.open(folder + "/" + std::string(name)).modified_ns();
  };
  const std::int64_t index = time_of(kModelIndex);
  const std::int64_t file = time_of(kModelFile);
  const std::string_view newer = index == file ? "" : index > file ? kModelIndex : kModelFile;
  invalid_argument(fmt::format(
      "{}: holds two models, {}{}; open one of them by its path, and remove the other if it is a "
      "leftover",
      folder, models_text(tree, folder, {std::string(kModelIndex), std::string(kModelFile)}),
      newer.empty() ? "" : fmt::format(", of which {} is newer", newer)));
}

}  // namespace

bool is_index_name(std::string_view path) { return path.ends_with(kModelIndexSuffix); }

std::vector<std::string> safetensors_models(const FileTree& tree, const std::string& folder) {
  Names indexes;
  Names files;
  for (const std::string& name : tree.names_in(folder)) {
    if (is_temporary_name(name) || tree.is_folder(folder + "/" + name)) continue;
    if (is_index_name(name)) indexes.push_back(name);
    if (name.size() > kModelSuffix.size() && name.ends_with(kModelSuffix)) files.push_back(name);
  }
  std::set<std::string, std::less<>> parts;
  for (const std::string& index : indexes) {
    const auto named = try_look(
        tree.is_local(), [&] { return safetensors_index_files(tree, folder + "/" + index); });
    if (named) parts.insert(named.value().begin(), named.value().end());
    // What else has the name of one of its shards is not a model of its own.
    const std::string_view stem =
        std::string_view(index).substr(0, index.size() - kModelIndexSuffix.size());
    for (const std::string& file : files)
      if (is_safetensors_shard(file, stem)) parts.insert(file);
  }
  std::erase_if(files, [&](const std::string& file) { return parts.contains(file); });
  indexes.insert(indexes.end(), files.begin(), files.end());
  return indexes;
}

std::optional<SafetensorsModel> find_safetensors_model(const FileTree& tree,
                                                       const std::string& folder) {
  const Names models = safetensors_models(tree, folder);
  if (models.empty()) return std::nullopt;
  if (has_model(models, kModelIndex) && has_model(models, kModelFile)) refuse_both(tree, folder);
  const bool is_named = has_model(models, kModelIndex) || has_model(models, kModelFile);
  if (!is_named && are_sharded_files(tree, folder, models))
    return SafetensorsModel{.path = folder, .unread = {}, .sharded = models};
  if (!is_named && std::all_of(models.begin(), models.end(),
                               [](const std::string& name) { return is_safetensors_shard(name); }))
    invalid_argument(fmt::format(
        "{}: holds shards of a safetensors model, but not the index that names them "
        "(model.safetensors.index.json): {}; add the index, or open a shard by its path",
        folder, models_text(tree, folder, models)));
  if (!is_named && models.size() > 1)
    invalid_argument(fmt::format(
        "{}: not a checkpoint, but a folder of several safetensors models, none of which is called "
        "model.safetensors: {}; open "
        "one of them by its path",
        folder, models_text(tree, folder, models)));
  const std::string_view chosen = has_model(models, kModelIndex)  ? kModelIndex
                                  : has_model(models, kModelFile) ? kModelFile
                                                                  : models.front();
  SafetensorsModel found{.path = fmt::format("{}/{}", folder, chosen), .unread = {}, .sharded = {}};
  for (const std::string& name : models)
    if (name != chosen) found.unread.push_back(fmt::format("{}/{}", folder, name));
  return found;
}

}  // namespace cairn::inline v0
