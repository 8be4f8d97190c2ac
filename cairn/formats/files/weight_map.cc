#include <cairn/formats/files/weight_map.h>

#include <cairn/base/errors.h>
#include <cairn/base/json/json.h>
#include <cairn/base/text.h>

#include <fmt/format.h>

#include <cstddef>

namespace cairn::inline v0 {
namespace {

void check_file_name(std::string_view name) {
  if (name.find('\0') != std::string_view::npos || name.find('\\') != std::string_view::npos ||
      !is_below_folder(name))
    data_loss(
        fmt::format("weight_map names the file \"{}\", which is not in the index's folder", name));
}

}  // namespace

bool begins_as_json_object(ByteView first) {
  const std::string_view text = as_text(first);
  const std::size_t at = text.find_first_not_of(" \t\r\n");
  return at != std::string_view::npos && text[at] == '{';
}

WeightMap parse_weight_map(std::string_view text) {
  const Json root = parse_json(text);
  const Json* map = root.find("weight_map");
  if (map == nullptr || map->as_object() == nullptr)
    data_loss("no object \"weight_map\" in the index");
  WeightMap index;
  for (const auto& [name, file] : *map->as_object()) {
    const auto* file_name = file.as_string();
    if (file_name == nullptr)
      data_loss(fmt::format("weight_map: \"{}\" is {}, not a file name", name, file.type_text()));
    check_file_name(*file_name);
    index.files[*file_name].push_back(name);
  }
  if (const Json* metadata = root.find("metadata"); metadata != nullptr) {
    index.metadata = to_text(*metadata);
    if (const Json* total = metadata->find("total_size")) index.total_size = total->as_uint64(true);
  }
  return index;
}

}  // namespace cairn::inline v0
