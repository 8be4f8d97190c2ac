// output_names.cc -- makes and parses the names of output files.
#include <cairn/formats/files/output_names.h>

#include <cairn/base/text.h>
#include <cairn/formats/files/bundle_files.h>
#include <cairn/io/temporary_name.h>

#include <fmt/format.h>

#include <optional>

namespace cairn::inline v0 {
namespace {

constexpr std::string_view kSafetensors = ".safetensors";
constexpr std::string_view kSafetensorsIndex = ".safetensors.index.json";

// "x-00001-of-00002" gives "x"; nullopt for a stem that does not end so.
std::optional<std::string_view> without_number(std::string_view stem) {
  const std::size_t of = stem.rfind("-of-");
  if (of == std::string_view::npos || stem.size() - of < 4 + 5 ||
      !consists_of(stem.substr(of + 4), kDecimalDigits))
    return std::nullopt;
  const std::size_t dash = stem.substr(0, of).rfind('-');
  if (dash == std::string_view::npos || of - dash < 1 + 5 ||
      !consists_of(stem.substr(dash + 1, of - dash - 1), kDecimalDigits))
    return std::nullopt;
  return stem.substr(0, dash);
}

// "x.cairn-tmp-1f" gives "x"; nullopt for a stem that does not end so.
std::optional<std::string_view> without_interim(std::string_view stem) {
  if (!is_temporary_name(stem)) return std::nullopt;
  return temporary_target(stem);
}

}  // namespace

std::string save_lock_path(std::string_view file) {
  if (const auto prefix = prefix_of_data(file)) return bundle_index_path(*prefix);
  if (!file.ends_with(kSafetensors)) return std::string(file);
  std::string_view stem = safetensors_stem(file);
  stem = without_number(stem).value_or(stem);
  return safetensors_index_path(without_interim(stem).value_or(stem));
}

bool is_set_index(std::string_view file) {
  return file.ends_with(".index") || file.ends_with(kSafetensorsIndex);
}

std::string_view safetensors_stem(std::string_view path) {
  return path.size() > kSafetensors.size() && path.ends_with(kSafetensors)
             ? path.substr(0, path.size() - kSafetensors.size())
             : path;
}

std::string safetensors_index_path(std::string_view stem) {
  return std::string(stem).append(kSafetensorsIndex);
}

std::string safetensors_shard_path(std::string_view stem, std::size_t shard, std::size_t count) {
  return fmt::format("{}-{:05}-of-{:05}{}", stem, shard + 1, count, kSafetensors);
}

std::string safetensors_interim_path(std::string_view stem, std::string_view tag, std::size_t shard,
                                     std::size_t count) {
  return safetensors_shard_path(temporary_name(stem, tag), shard, count);
}

bool is_safetensors_shard(std::string_view file) {
  return file.ends_with(kSafetensors) && without_number(safetensors_stem(file));
}

bool is_safetensors_shard(std::string_view file, std::string_view stem) {
  return is_safetensors_shard(file) && without_number(safetensors_stem(file)) == stem;
}

bool is_safetensors_interim(std::string_view file, std::string_view stem) {
  if (!file.ends_with(kSafetensors)) return false;
  const auto numbered = without_number(safetensors_stem(file));
  return numbered && without_interim(*numbered) == stem;
}

std::optional<std::string> final_name_of_interim(std::string_view file) {
  if (!file.ends_with(kSafetensors)) return std::nullopt;
  const std::string_view stem = safetensors_stem(file);
  const auto numbered = without_number(stem);
  const auto target = numbered ? without_interim(*numbered) : std::nullopt;
  if (!target) return std::nullopt;
  return std::string(*target).append(file.substr(numbered->size()));
}

}  // namespace cairn::inline v0
