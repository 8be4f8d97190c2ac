#include <cairn/formats/safetensors/shard.h>

#include <cairn/base/errors.h>
#include <cairn/base/json/json.h>
#include <cairn/formats/files/foreign_content.h>
#include <cairn/io/tree/read_ahead.h>

#include <fmt/format.h>

#include <algorithm>

namespace cairn::inline v0 {

OpenShard open_shard(const FileTree& tree, const std::string& path) {
  File file = with_context([&] { return path; }, [&] { return with_read_ahead(tree.open(path)); });
  return explain_foreign(file, [&] {
    return with_context([&] { return path; },
                        [&] {
                          const std::uint64_t size = file.size();
                          Bytes prefix(std::min(kSafetensorsPrefix, size));
                          file.read_into(0, prefix);
                          Bytes json(decode_safetensors_prefix(prefix, size));
                          file.read_into(kSafetensorsPrefix, json);
                          const std::uint64_t data_start = kSafetensorsPrefix + json.size();
                          SafetensorsHeader header =
                              decode_safetensors_header(json, size - data_start);
                          return OpenShard{std::move(file), data_start, std::move(header)};
                        });
  });
}

RawLeaf make_leaf(SafetensorsEntry entry, std::uint32_t file, std::uint64_t data_start) {
  const SafetensorsType& type = safetensors_types()[entry.type];
  RawLeaf leaf;
  leaf.info.path = {{entry.name, KeyType::kDict}};  // a name is one flat key, even if it has dots
  leaf.info.name = std::move(entry.name);
  leaf.info.typestr = "np.ndarray";
  leaf.info.dtype = type.dtype.value_or(DType::kOpaque);
  leaf.info.dtype_name = type.dtype ? dtype_name(*type.dtype) : type.name;
  leaf.info.element_size = type.dtype ? dtype_size(*type.dtype) : 0;
  leaf.info.stored_nbytes = entry.end - entry.begin;
  leaf.info.nbytes = type.bits == 4 ? 2 * leaf.info.stored_nbytes : leaf.info.stored_nbytes;
  leaf.info.shape = std::move(entry.shape);
  if (type.bits == 4) leaf.array.in_byte = 2;
  leaf.array.runs.push_back({file, data_start + entry.begin, leaf.info.stored_nbytes});
  if (!type.dtype) leaf.unreadable = fmt::format("elements of type {} cannot be read", type.name);
  return leaf;
}

std::string metadata_text(const std::vector<std::pair<std::string, std::string>>& metadata) {
  if (metadata.empty()) return "";
  JsonObject object;
  for (const auto& [key, value] : metadata) object.emplace_back(key, Json(value));
  return to_text(Json(std::move(object)));
}

}  // namespace cairn::inline v0
