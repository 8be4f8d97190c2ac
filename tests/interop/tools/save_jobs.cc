// save_jobs.cc -- what a job says, as the library takes it.
#include "tests/interop/tools/save_jobs.h"

#include <cairn/orbax/checkpointer.h>

#include <stdexcept>
#include <string>
#include <utility>

#include "tests/interop/tools/tree_json.h"

namespace cairn::testing {

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

namespace {

// The standard handlers, which register_standard_handlers_with_options makes, with other names of
// files.
std::shared_ptr<const TypeHandlerRegistry> registry_with(const Json& json) {
  if (const Json* key = given(json, "metadata_key")) {
    const std::string& name = *key->as_string();
    StandardHandlerOptions options;
    options.numpy.metadata_key = options.array.metadata_key = options.scalar.metadata_key = name;
    register_standard_handlers_with_options(options);
  }
  auto registry = std::make_shared<TypeHandlerRegistry>(default_type_handler_registry());
  default_type_handler_registry() = standard_type_handlers();
  if (const Json* file = given(json, "strings_file"))
    registry->add(
        typeid(std::string),
        std::make_shared<StringHandler>(StringHandler::Options{.filename = *file->as_string()}),
        {nullptr, true});
  return registry;
}

}  // namespace

PyTreeCheckpointHandlerOptions options_of(const Json& json) {
  PyTreeCheckpointHandlerOptions options;
  set(json, "use_ocdbt", options.use_ocdbt);
  set(json, "use_zarr3", options.use_zarr3);
  set(json, "use_compression", options.use_compression);
  if (const Json* compression = json.find("compression")) {
    if (*compression->as_string() != "reproducible")
      throw std::invalid_argument("compression: " + *compression->as_string());
    options.compression = Compression::kReproducible;
  }
  bool reuse = false;
  set(json, "reuse", reuse);
  if (reuse) options.reuse = Reuse::kUnchanged;
  set(json, "support_rich_types", options.pytree_metadata_options.support_rich_types);
  set(json, "save_concurrent_gb", options.save_concurrent_gb);
  set(json, "restore_concurrent_gb", options.restore_concurrent_gb);
  set(json, "save_concurrent_bytes", options.save_concurrent_bytes);
  set(json, "restore_concurrent_bytes", options.restore_concurrent_bytes);
  set(json, "enable_post_merge_validation", options.enable_post_merge_validation);
  if (const Json* limit = given(json, "save_device_host_concurrent_gb")) {
    if (limit->as_string() != nullptr)  // "auto"
      options.save_device_host_concurrent_gb = AutoLimit{};
    else
      options.save_device_host_concurrent_gb = limit->as_int64().value();
  }
  if (const Json* name = given(json, "aggregate_filename"))
    options.aggregate_filename = *name->as_string();
  if (const Json* of = given(json, "prioritized"))
    options.is_prioritized_key_fn = [all = *of->as_bool()](const KeyPath&) { return all; };
  if (given(json, "metadata_key") || given(json, "strings_file"))
    options.type_handler_registry = registry_with(json);
  return options;
}

PyTreeSaveArgs save_args_of(const Json& job) {
  PyTreeSaveArgs args;
  args.item = tree_from_json(*job.find("item"));
  if (const Json* of = given(job, "save_args")) args.save_args = tree_from_json(*of);
  set(job, "ocdbt_target_data_file_size", args.ocdbt_target_data_file_size);
  if (const Json* of = given(job, "custom_metadata")) args.custom_metadata = *of->as_string();
  if (const Json* of = given(job, "reuse_from")) args.reuse_from = *of->as_string();
  return args;
}

std::shared_ptr<const TypeHandlerRegistry> registry_of(const Json& json, const Told& told) {
  ArrayHandler::Options options;
  set(json, "use_replica_parallel", options.use_replica_parallel);
  set(json, "separate_folder", options.enable_replica_parallel_separate_folder);
  if (const Json* of = given(json, "min_slice_bytes"))
    options.min_slice_bytes_for_replica_parallel = *of->as_int64();
  set(json, "max_replicas", options.max_replicas_for_replica_parallel);
  set(json, "write_sharding_file", options.enable_write_sharding_file);
  if (given(json, "all_replicas")) options.replica_id = std::nullopt;
  set(json, "keep_array_metadata", options.keep_array_metadata);
  if (told != nullptr) {
    options.on_transfer_end = [told](const KeyPath& path) { told("transferred", path); };
    options.on_write_end = [told](const KeyPath& path) { told("written", path); };
  }
  auto registry = std::make_shared<TypeHandlerRegistry>(standard_type_handlers());
  registry->add(typeid(ShardedArray), std::make_shared<ArrayHandler>(options), {nullptr, true});
  return registry;
}

Tree held_by(const Tree& tree, const std::unordered_set<std::int64_t>& devices) {
  return map_leaves(tree, [&](const KeyPath&, const Tree& leaf) {
    const auto* whole = leaf.custom<ShardedArray>();
    if (whole == nullptr) return leaf;
    ShardedArray held = *whole;
    std::erase_if(held.shards,
                  [&](const ArrayShard& shard) { return !devices.contains(shard.device_id); });
    return Tree(std::move(held));
  });
}

std::unordered_set<std::int64_t> devices_of(const Json& job, std::size_t process) {
  std::unordered_set<std::int64_t> devices;
  for (const Json& device : *job.find("owners")->as_array()->at(process).as_array())
    devices.insert(device.as_int64().value());
  return devices;
}

void save_part(const Json& job, const PyTreeSaveArgs& whole,
               const std::shared_ptr<Coordinator>& mine, const Observer& observer) {
  PyTreeSaveArgs args = whole;
  args.item = held_by(whole.item, devices_of(job, mine->process_index()));
  PyTreeCheckpointHandlerOptions options = options_of(*job.find("options"));
  options.observer = observer;
  options.multiprocessing_options = {.coordinator = mine, .timeout = std::chrono::seconds(60)};
  if (const Json* prefix = given(job, "barrier_prefix"))
    options.multiprocessing_options.barrier_sync_key_prefix = *prefix->as_string();
  const Json* primary = given(job, "primary");
  options.multiprocessing_options.primary_host =
      primary == nullptr ? std::nullopt : std::optional<std::size_t>(*primary->as_int64());
  options.type_handler_registry = registry_of(*job.find("array"));
  std::string directory = *job.find("dir")->as_string();
  if (primary == nullptr) directory += std::to_string(mine->process_index());
  if (*job.find("op")->as_string() == "async_save") {
    AsyncCheckpointer checkpointer(options);
    checkpointer.save(directory, args);
    checkpointer.wait_until_finished();
  } else {
    Checkpointer(options).save(directory, args);
  }
}

}  // namespace cairn::testing
