// pytree_tool.cc -- drives PyTreeCheckpointHandler as a list of jobs on stdin says; trees are as in tree_json.h. A job with "owners"
// is a save by several processes (threads, here), each with the shards of its own devices.
//
// In:  [{"op": "save" | "async_save" | "finalize" | "restore" | "metadata", "dir": folder, "options": {"use_ocdbt": true, ...},
//        "item": tree, "save_args": tree, "ocdbt_target_data_file_size": n, "custom_metadata": text, "restore_args": tree,
//        "partial": false, "owners": [[device, ...] of process 0, ...], "primary": 0, "array": {"use_replica_parallel": true, ...}}]
// Out: for each job {"tree": ...}, {"done": true} or {"error": text, "code": "invalid_argument"}
#include <cairn/base/json.h>
#include <cairn/checkpointer.h>
#include <cairn/pytree_checkpoint_handler.h>

#include <iostream>
#include <iterator>
#include <memory>
#include <string>
#include <unordered_set>

#include "tests/interop/tree_json.h"
#include "tests/support/processes.h"

namespace {

using namespace cairn;
using namespace cairn::testing;

const Json* given(const Json& json, const char* name) {
  const Json* found = json.find(name);
  return found == nullptr || found->is_null() ? nullptr : found;
}

void set(const Json& json, const char* name, bool& flag) {
  if (const Json* of = given(json, name)) flag = *of->as_bool();
}
void set(const Json& json, const char* name, std::optional<std::int64_t>& number) {
  if (const Json* of = given(json, name)) number = of->as_int64();
}

PyTreeCheckpointHandlerOptions options_of(const Json& json) {
  PyTreeCheckpointHandlerOptions options;
  set(json, "use_ocdbt", options.use_ocdbt);
  set(json, "use_zarr3", options.use_zarr3);
  set(json, "use_compression", options.use_compression);
  set(json, "support_rich_types", options.pytree_metadata_options.support_rich_types);
  set(json, "save_concurrent_gb", options.save_concurrent_gb);
  set(json, "restore_concurrent_gb", options.restore_concurrent_gb);
  set(json, "enable_post_merge_validation", options.enable_post_merge_validation);
  if (const Json* key = given(json, "metadata_key")) {
    auto registry = std::make_shared<TypeHandlerRegistry>(standard_type_handlers());
    NumpyHandler::Options numpy;
    ArrayHandler::Options array;
    numpy.metadata_key = array.metadata_key = *key->as_string();
    registry->add(typeid(Array), std::make_shared<NumpyHandler>(numpy), {nullptr, true});
    registry->add(typeid(ShardedArray), std::make_shared<ArrayHandler>(array), {nullptr, true});
    options.type_handler_registry = registry;
  }
  return options;
}

PyTreeSaveArgs save_args_of(const Json& job) {
  PyTreeSaveArgs args;
  args.item = tree_from_json(*job.find("item"));
  if (const Json* of = given(job, "save_args")) args.save_args = tree_from_json(*of);
  set(job, "ocdbt_target_data_file_size", args.ocdbt_target_data_file_size);
  if (const Json* of = given(job, "custom_metadata")) args.custom_metadata = *of->as_string();
  return args;
}

// ---- several processes ----

std::shared_ptr<const TypeHandlerRegistry> registry_of(const Json& json) {
  ArrayHandler::Options options;
  set(json, "use_replica_parallel", options.use_replica_parallel);
  set(json, "separate_folder", options.enable_replica_parallel_separate_folder);
  if (const Json* of = given(json, "min_slice_bytes")) options.min_slice_bytes_for_replica_parallel = *of->as_int64();
  set(json, "max_replicas", options.max_replicas_for_replica_parallel);
  auto registry = std::make_shared<TypeHandlerRegistry>(standard_type_handlers());
  registry->add(typeid(ShardedArray), std::make_shared<ArrayHandler>(options), {nullptr, true});
  return registry;
}

// The tree as a process has it that holds these devices' shards.
Tree held_by(const Tree& tree, const std::unordered_set<std::int64_t>& devices) {
  return map_leaves(tree, [&](const KeyPath&, const Tree& leaf) {
    const auto* whole = leaf.custom<ShardedArray>();
    if (whole == nullptr) return leaf;
    ShardedArray held = *whole;
    std::erase_if(held.shards, [&](const ArrayShard& shard) { return !devices.contains(shard.device_id); });
    return Tree(CustomLeaf::of(std::move(held)));
  });
}

void save_together(const Json& job) {
  const PyTreeSaveArgs whole = save_args_of(job);
  const auto& owners = *job.find("owners")->as_array();
  const bool background = *job.find("op")->as_string() == "async_save";
  const auto errors = run_as_processes(owners.size(), [&](const std::shared_ptr<Coordinator>& mine) {
    std::unordered_set<std::int64_t> devices;
    for (const Json& device : *owners[mine->process_index()].as_array()) devices.insert(*device.as_int64());
    PyTreeSaveArgs args = whole;
    args.item = held_by(whole.item, devices);
    PyTreeCheckpointHandlerOptions options = options_of(*job.find("options"));
    options.multiprocessing_options = {.coordinator = mine, .timeout = std::chrono::seconds(60)};
    options.multiprocessing_options.primary_host = static_cast<std::size_t>(*job.find("primary")->as_int64());
    options.type_handler_registry = registry_of(*job.find("array"));
    if (background) {
      AsyncCheckpointer checkpointer(options);
      checkpointer.save(*job.find("dir")->as_string(), args);
      checkpointer.wait_until_finished();
    } else {
      Checkpointer(options).save(*job.find("dir")->as_string(), args);
    }
  });
  for (const auto& error : errors)
    if (error) throw Error(*error);
}

Json run(const Json& job) {
  PyTreeCheckpointHandler handler(given(job, "options") ? options_of(*job.find("options")) : PyTreeCheckpointHandlerOptions{});
  const std::string& op = *job.find("op")->as_string();
  const std::string& directory = *job.find("dir")->as_string();
  Json out;
  if (given(job, "owners")) {
    save_together(job);
    out.set("done", true);
  } else if (op == "save" || op == "async_save") {
    const PyTreeSaveArgs args = save_args_of(job);
    if (op == "save")
      handler.save(directory, args);
    else
      for (const auto& future : handler.async_save(directory, args)) future.get();
    handler.finalize(directory);
    out.set("done", true);
  } else if (op == "finalize") {
    handler.finalize(directory);
    out.set("done", true);
  } else if (op == "restore") {
    PyTreeRestoreArgs args;
    if (const Json* of = given(job, "item")) args.item = tree_from_json(*of);
    if (const Json* of = given(job, "restore_args")) args.restore_args = tree_from_json(*of);
    set(job, "partial", args.partial_restore);
    out.set("tree", tree_to_json(handler.restore(directory, args)));
  } else if (op == "metadata") {
    const PyTreeMetadata metadata = handler.metadata(directory);
    out.set("tree", tree_to_json(metadata.tree));
    out.set("custom_metadata", metadata.custom_metadata);
    out.set("use_zarr3", metadata.use_zarr3);
  } else {
    throw std::runtime_error("no such job: " + op);
  }
  return out;
}

}  // namespace

int main() {
  const std::string in{std::istreambuf_iterator<char>(std::cin), {}};
  JsonLimits limits;
  limits.max_depth = 500;
  const Json jobs = parse_json(in, limits);
  JsonArray out;
  for (const Json& job : *jobs.as_array()) {
    try {
      out.push_back(run(job));
    } catch (const Error& e) {
      Json error;
      error.set("error", e.message());
      error.set("code", code_name(e.code()));
      out.push_back(error);
    }
  }
  std::cout << to_text(Json(std::move(out))) << "\n";
}
