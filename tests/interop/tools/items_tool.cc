// items_tool.cc -- saves and restores checkpoints of several items; trees as in tree_json.h.
//
// {"op": "save", "path", "items": [{"name", "kind", "tree" | "text" | "typed", "save_args": tree,
//   "custom": text}], "metadata", "async"}; "save_args" and "custom" may be missing
// {"op": "restore", "path", "names": [...], "readers": {handler: file to read}}
//   -> [{"name", "kind", "tree" | "text" | "typed" | "handler"}]; "readers" may be missing
// {"op": "standard", "path", "name", "target": tree | null, "strict", "devices": [text as JAX
//   prints it, by id], "fallback": text of a sharding}  -> tree; the last two may be missing
// {"op": "metadata", "path"}  -> metadata_json.h
// {"op": "construct", "target": tree}  -> tree of restore args
// {"op": "merge" | "intersect", "trees": [...], "target": tree | null}  -> tree
#include <cairn/io/file.h>
#include <cairn/orbax/checkpointer.h>
#include <cairn/orbax/sharding.h>
#include <cairn/orbax/step_metadata.h>
#include <cairn/orbax/transforms.h>

#include <string>

#include "tests/interop/tools/answer_jobs.h"
#include "tests/interop/tools/metadata_json.h"
#include "tests/interop/tools/tree_json.h"

namespace {

using namespace cairn;

const Json& member(const Json& json, std::string_view name) { return *json.find(name); }
std::string text(const Json& json, std::string_view name) {
  return *member(json, name).as_string();
}
bool flag(const Json& json, std::string_view name) { return *member(json, name).as_bool(); }
Tree tree(const Json& json, std::string_view name) {
  return testing::tree_from_json(member(json, name));
}
std::optional<Tree> optional_tree(const Json& json, std::string_view name) {
  if (member(json, name).is_null()) return std::nullopt;
  return tree(json, name);
}

CheckpointItem item_of(const Json& json) {
  const std::string kind = text(json, "kind");
  if (kind == "pytree") return PyTreeSaveArgs{tree(json, "tree")};
  if (kind == "standard") {
    StandardItem item{tree(json, "tree")};
    if (json.find("save_args") != nullptr) item.save_args = tree(json, "save_args");
    if (json.find("custom") != nullptr) item.custom_metadata = text(json, "custom");
    return item;
  }
  if (kind == "array") return ArrayItem{tree(json, "tree")};
  if (kind == "json") return JsonItem{text(json, "text")};
  if (kind == "proto") return ProtoItem{text(json, "text")};
  if (kind == "jax_key") return JaxRandomKeyItem{tree(json, "tree"), flag(json, "typed")};
  return NumpyRandomKeyItem{tree(json, "tree")};
}

struct ToJson {
  std::string name;

  Json operator()(const Tree& found) const {
    return JsonObject{{"name", name}, {"kind", "tree"}, {"tree", testing::tree_to_json(found)}};
  }
  Json operator()(const JsonItem& item) const {
    return JsonObject{{"name", name}, {"kind", "json"}, {"text", item.text}};
  }
  Json operator()(const ProtoItem& item) const {
    return JsonObject{{"name", name}, {"kind", "proto"}, {"text", item.text}};
  }
  Json operator()(const JaxRandomKeyItem& item) const {
    return JsonObject{{"name", name},
                      {"kind", "jax_key"},
                      {"tree", testing::tree_to_json(item.key)},
                      {"typed", item.typed}};
  }
  Json operator()(const NumpyRandomKeyItem& item) const {
    return JsonObject{
        {"name", name}, {"kind", "numpy_key"}, {"tree", testing::tree_to_json(item.state)}};
  }
  Json operator()(const CustomItem& item) const {
    return JsonObject{{"name", name},
                      {"kind", "custom"},
                      {"handler", item.handler},
                      {"text", std::any_cast<std::string>(item.value)}};
  }
};

Json save(const Json& job) {
  CheckpointItems items;
  for (const Json& item : *member(job, "items").as_array())
    items.emplace_back(text(item, "name"), item_of(item));
  CheckpointerSaveOptions options;
  options.custom_metadata = text(job, "metadata");
  if (!flag(job, "async")) {
    Checkpointer().save_items(text(job, "path"), items, options);
  } else {
    AsyncCheckpointer checkpointer;
    checkpointer.save_items(text(job, "path"), items, options);
    checkpointer.close();
  }
  return {};
}

Json restore(const Json& job) {
  ItemRequests requests;
  for (const Json& name : *member(job, "names").as_array()) requests[*name.as_string()] = {};
  FilesReaders readers;
  if (const Json* given = job.find("readers"))
    for (const auto& [handler, file] : *given->as_object())
      readers.by_handler[handler] = [file = *file.as_string()](const std::string& directory) {
        return std::any(std::string(as_text(read_file(directory + "/" + file, 1U << 20U))));
      };
  JsonArray answer;
  for (const auto& [name, item] :
       Checkpointer().restore_items(text(job, "path"), requests, readers))
    answer.push_back(std::visit(ToJson{name}, item));
  return answer;
}

Json restore_standard(const Json& job) {
  StandardRestoreArgs args{.item = optional_tree(job, "target"), .strict = flag(job, "strict")};
  if (const Json* devices = job.find("devices"))
    for (const Json& device : *devices->as_array())
      args.devices.push_back({static_cast<std::int64_t>(args.devices.size()), *device.as_string()});
  if (job.find("fallback") != nullptr)
    args.fallback_sharding = parse_sharding(text(job, "fallback"));
  const RestoredItems items =
      Checkpointer().restore_items(text(job, "path"), {{text(job, "name"), args}});
  return testing::tree_to_json(std::get<Tree>(items.at(text(job, "name"))));
}

Json combine(const Json& job) {
  std::vector<Tree> trees;
  for (const Json& one : *member(job, "trees").as_array())
    trees.push_back(testing::tree_from_json(one));
  const auto combined = text(job, "op") == "merge"
                            ? merge_trees(trees, optional_tree(job, "target"))
                            : intersect_trees(trees, optional_tree(job, "target"));
  return testing::tree_to_json(combined);
}

Json answer(const Json& job) {
  const std::string op = text(job, "op");
  if (op == "save") return save(job);
  if (op == "restore") return restore(job);
  if (op == "standard") return restore_standard(job);
  if (op == "metadata") return testing::metadata_json(read_step_metadata(text(job, "path")));
  if (op == "construct") return testing::tree_to_json(construct_restore_args(tree(job, "target")));
  return combine(job);
}

}  // namespace

int main() { testing::answer_list(answer); }
