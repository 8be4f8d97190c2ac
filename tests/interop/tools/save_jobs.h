// save_jobs.h -- what a job of the tools says about a save: the handler's options, its arguments,
// and what of the tree a process has.
#pragma once

#include <cairn/base/json/json.h>
#include <cairn/orbax/handlers.h>
#include <cairn/orbax/pytree_checkpoint_handler.h>

#include <functional>
#include <memory>
#include <optional>
#include <unordered_set>

namespace cairn::testing {

// A member that is there and not null; nullptr if there is none.
const Json* given(const Json& json, const char* name);
void set(const Json& json, const char* name, bool& flag);
void set(const Json& json, const char* name, std::optional<std::int64_t>& number);

// {"use_ocdbt": true, "use_zarr3": false, ..., "reuse": true, "metadata_key": text,
// "strings_file": text}
PyTreeCheckpointHandlerOptions options_of(const Json& json);
// {"item": tree, "save_args": tree, "ocdbt_target_data_file_size": n, "custom_metadata": text,
// "reuse_from": folder}
PyTreeSaveArgs save_args_of(const Json& job);

// Called with "transferred" or "written" and the path of an array.
using Told = std::function<void(const char* what, const KeyPath& path)>;
// {"use_replica_parallel": true, "separate_folder": false, "min_slice_bytes": n, "max_replicas": n,
// "write_sharding_file": true, "keep_array_metadata": true,
// "all_replicas": true: replica_id is None}
std::shared_ptr<const TypeHandlerRegistry> registry_of(const Json& json, const Told& told = {});
// The devices of a process in {"owners": [[device, ...] of process 0, ...]}.
std::unordered_set<std::int64_t> devices_of(const Json& job, std::size_t process);
// The tree as a process has it that holds these devices' shards.
Tree held_by(const Tree& tree, const std::unordered_set<std::int64_t>& devices);
// Saves, or saves in the background and waits ("op" is "save" or "async_save"), one process's part
// of "item". Without "primary" each process saves for itself, to a folder with its number behind
// "dir". "barrier_prefix" is the prefix of the names of its collectives.
void save_part(const Json& job, const PyTreeSaveArgs& whole,
               const std::shared_ptr<Coordinator>& mine, const Observer& observer = {});

}  // namespace cairn::testing
