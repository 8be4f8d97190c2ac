// orbax_target.h -- the options of commands that write an Orbax checkpoint.
#pragma once

#include <cairn/convert.h>

#include <CLI/App.hpp>

#include <optional>
#include <string>

namespace cairn::cli {

// The values as they are given.
struct OrbaxTargetArguments {
  std::string compression = "auto";
  std::string chunk_bytes;
  std::string target_file_bytes;
  std::string durability = "synced";
  std::string commit_protocol = "atomic_rename";
};

// Adds --compression, --chunk-bytes (whose help the command gives), --target-file-bytes, --as-item,
// --follow-links, --durability and --commit-protocol.
void add_orbax_target(CLI::App& command, OrbaxTargetArguments& arguments, OrbaxTarget& target,
                      const std::string& chunk_bytes_help);
// Parses the values into `target`. Throws UsageError.
void finish_orbax_target(const OrbaxTargetArguments& arguments, OrbaxTarget& target);
// For a Distributed Checkpoint, --chunk-bytes is its own option, which moves from `orbax`.
void move_chunk_bytes(std::optional<TargetFormat> format, OrbaxTarget& orbax, DcpTarget& dcp);

}  // namespace cairn::cli
