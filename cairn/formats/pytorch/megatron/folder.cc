#include <cairn/formats/pytorch/megatron/folder.h>

#include <cairn/base/errors.h>
#include <cairn/base/json/json.h>
#include <cairn/base/text.h>

#include <fmt/format.h>

namespace cairn::inline v0::pytorch::megatron {
namespace {

constexpr std::uint64_t kMostConfig = std::uint64_t{64} << 10U;  // bytes

// nullopt unless this is the object that Megatron-Core writes.
std::optional<Config> parse_config(std::string_view text) {
  const Json json = parse_json(text);
  const Json* backend = json.find("sharded_backend");
  if (backend == nullptr || backend->as_string() == nullptr) return std::nullopt;
  Config config{.sharded_backend = *backend->as_string()};
  // A value of another type is one that Cairn does not know.
  const auto take_version = [&](const char* key, std::int64_t& version) {
    if (const Json* found = json.find(key)) version = found->as_int64().value_or(-1);
  };
  take_version("sharded_backend_version", config.sharded_version);
  take_version("common_backend_version", config.common_version);
  if (const Json* common = json.find("common_backend"))
    config.common_backend =
        common->as_string() == nullptr ? std::string(common->type_text()) : *common->as_string();
  return config;
}

// "0.1" or "2": decimal numbers with dots between them.
bool is_position(std::string_view text) {
  for (const std::string_view number : split(text, '.'))
    if (!consists_of(number, kDecimalDigits)) return false;
  return true;
}

void check_backend(const std::string& folder, const char* what, const std::string& backend,
                   std::int64_t version, const char* known) {
  if (backend == known && version == 1) return;
  throw Error(Code::kUnimplemented,
              fmt::format("{}/{}: the {} backend of this Megatron-Core checkpoint is {} of version "
                          "{}; Cairn reads {} of version 1",
                          folder, kConfigFile, what, backend, version, known));
}

}  // namespace

std::optional<Config> find_config(const FileTree& tree, const std::string& folder,
                                  const FolderNames& names) {
  if (!names.contains(kConfigFile)) return std::nullopt;
  const std::string path = fmt::format("{}/{}", folder, kConfigFile);
  const auto found = try_look(tree.is_local(), [&]() -> std::optional<Config> {
    if (tree.is_folder(path)) return std::nullopt;
    return parse_config(as_text(tree.read_text(path, kMostConfig)));
  });
  return found.ok() ? found.value() : std::nullopt;
}

void check_supported(const Config& config, const std::string& folder) {
  check_backend(folder, "sharded", config.sharded_backend, config.sharded_version, "torch_dist");
  check_backend(folder, "common", config.common_backend, config.common_version, "torch");
}

std::optional<std::pair<std::string, std::string>> split_object_name(std::string_view name) {
  constexpr std::string_view kShard = "shard_";
  const std::size_t slash = name.rfind('/');
  if (slash == std::string_view::npos || slash == 0) return std::nullopt;
  std::string_view place = name.substr(slash + 1);
  if (!place.starts_with(kShard)) return std::nullopt;
  place.remove_prefix(kShard.size());
  const std::size_t line = place.find('_');
  if (line == std::string_view::npos || !is_position(place.substr(0, line)) ||
      !is_position(place.substr(line + 1)))
    return std::nullopt;
  return std::pair(std::string(name.substr(0, slash)), std::string(name.substr(slash + 1)));
}

}  // namespace cairn::inline v0::pytorch::megatron
