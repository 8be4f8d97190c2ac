// unfinished_set.cc -- takes the last steps of place_set.
#include <cairn/formats/safetensors/unfinished_set.h>

#include <cairn/base/json/json.h>
#include <cairn/base/text.h>
#include <cairn/error.h>
#include <cairn/formats/files/file_set.h>
#include <cairn/formats/files/output_names.h>
#include <cairn/formats/files/weight_map.h>
#include <cairn/formats/safetensors/header.h>
#include <cairn/io/file.h>

#include <map>
#include <optional>

namespace cairn::inline v0 {
namespace {

// Returns the index with final names, and the interim and final names. Returns nullopt unless the
// index names interim files of its own set.
struct FinishedIndex {
  std::string text;
  std::map<std::string, std::string> names;  // interim -> final
};

std::optional<FinishedIndex> finished_index(const std::string& index) {
  const std::string name(name_of(index));
  FinishedIndex out;
  const Json json = parse_json(as_text(read_text_file(index, kMaxIndexBytes)));
  const Json* map = json.find("weight_map");
  const JsonObject* listed = map == nullptr ? nullptr : map->as_object();
  if (listed == nullptr) return std::nullopt;
  JsonObject files = *listed;
  for (auto& [tensor, file] : files) {
    const std::string* from = file.as_string();
    const auto to = from == nullptr ? std::nullopt : final_name_of_interim(*from);
    if (!to || from->find('/') != std::string::npos || save_lock_path(*to) != name) continue;
    out.names.emplace(*from, *to);
    file = Json(*to);
  }
  Json finished = json;
  finished.set("weight_map", std::move(files));
  if (out.names.empty()) return std::nullopt;
  out.text = to_text(finished, JsonStyle::kPretty) + "\n";
  return out;
}

}  // namespace

bool is_unfinished_set(const std::string& index) {
  const auto found = try_call([&] { return finished_index(index); });
  if (!found || !found.value()) return false;
  for (const auto& [interim, final_name] : found.value()->names)
    if (!file_exists(std::string(folder_prefix(index)) + interim)) return false;
  return true;
}

void finish_set(const std::string& index) {
  const auto found = finished_index(index);
  if (!found) return;
  const std::string folder(folder_prefix(index));
  FileSet set{.paths = {}, .interim = {}, .index = index, .place = {}, .write_index = {}};
  for (const auto& [interim, final_name] : found->names) {
    set.interim.push_back(folder + interim);
    set.paths.push_back(folder + final_name);
  }
  set.write_index = [&](AtomicFile& file, bool /*interim*/) { file.append(as_bytes(found->text)); };
  move_to_final_names(set);
}

}  // namespace cairn::inline v0
