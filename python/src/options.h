// options.h -- options of saves as Python passes them: a dict whose unknown keys are errors.
#pragma once

#include <cairn/options.h>
#include <cairn/orbax/pytree_checkpoint_handler.h>

#include <nanobind/nanobind.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

namespace cairn::python {

// Working memory in bytes. Throws invalid_argument for less than 1 MiB: the number is not one of
// gigabytes.
std::uint64_t working_memory(std::uint64_t bytes);
// As compression_from_text(). An error names the option.
Compression parse_compression(const std::string& text);

// A positive number of seconds.
std::chrono::milliseconds seconds_option(const std::string& name, nanobind::handle value);

// "synced" or "unsynced".
Durability durability_option(const std::string& name, nanobind::handle value);
// "atomic_rename" or "commit_file".
CommitProtocol commit_protocol_option(const std::string& name, nanobind::handle value);

// SaveOptions, and what only a save in the background has.
struct SaveChoices : SaveOptions {
  std::optional<std::uint64_t> background_copy_bytes = {};
};

// Keys and types: if_exists ("fail", "replace"), use_ocdbt, use_zarr3, v1, support_rich_types
// (bool), item, compression, custom_metadata, item_metadata (str), chunk_bytes, target_file_bytes,
// threads, memory (int), durability ("synced", "unsynced"), commit_protocol ("atomic_rename",
// "commit_file"), reuse_from (a path), save_timeout (seconds), background_copy_bytes (int). None
// stands for the default.
SaveChoices save_options(nanobind::dict options);
// The options of the same names for a save in the background or by several processes. The caller
// passes on those that belong to one save: if_exists, item, custom_metadata, item_metadata,
// target_file_bytes, reuse_from, v1.
PyTreeCheckpointHandlerOptions handler_options(const SaveChoices& options);

}  // namespace cairn::python
