// orbax_target.cc -- parses the options of an Orbax checkpoint that a command writes.
#include "arguments/orbax_target.h"

#include "arguments/choices.h"
#include "source.h"

#include <cstdint>

namespace cairn::cli {

void add_orbax_target(CLI::App& command, OrbaxTargetArguments& arguments, OrbaxTarget& target,
                      const std::string& chunk_bytes_help) {
  command
      .add_option(
          "--compression", arguments.compression,
          "For Orbax checkpoints: auto (compressed where that takes less\ntime), reproducible "
          "(the same bytes each time), smallest,\nnone, zstd[:LEVEL], blosc[:LEVEL]")
      ->type_name("METHOD")
      ->capture_default_str();
  check_not_empty(command.add_option("--chunk-bytes", arguments.chunk_bytes, chunk_bytes_help)
                      ->type_name("SIZE"));
  check_not_empty(command
                      .add_option("--target-file-bytes", arguments.target_file_bytes,
                                  "Start a new data file at this size (Orbax; default: 2 GiB)")
                      ->type_name("SIZE"));
  command
      .add_option("--as-item", target.item,
                  "Store the tree as this item of the checkpoint (default: items\nkeep their "
                  "names); CheckpointManager needs the name 'default'")
      ->type_name("NAME");
  command.add_flag("--follow-links", target.follow_links,
                   "Copy the targets of symbolic links in items, even outside the checkpoint "
                   "(Orbax); by default, such a link is an error");
  check_choice(command.add_option("--durability", arguments.durability,
                                  "synced (the default: survives a power failure) or unsynced: a "
                                  "power failure may lose or damage it (Orbax)"),
               {"synced", "unsynced"})
      ->type_name("WORD");
  check_choice(
      command.add_option(
          "--commit-protocol", arguments.commit_protocol,
          "atomic_rename (the default), or commit_file for file systems that cannot rename a "
          "folder: writes at the final path and marks the end with commit_success.txt (Orbax)"),
      {"atomic_rename", "commit_file"})
      ->type_name("WORD");
}

void finish_orbax_target(const OrbaxTargetArguments& arguments, OrbaxTarget& target) {
  target.compression = parse_compression(arguments.compression);
  if (!arguments.chunk_bytes.empty())
    target.chunk_bytes = static_cast<std::int64_t>(parse_size(arguments.chunk_bytes));
  target.durability =
      arguments.durability == "unsynced" ? Durability::kUnsynced : Durability::kSynced;
  target.commit_protocol = arguments.commit_protocol == "commit_file"
                               ? CommitProtocol::kCommitMarker
                               : CommitProtocol::kAtomicRename;
  if (!arguments.target_file_bytes.empty())
    target.target_file_bytes = static_cast<std::int64_t>(parse_size(arguments.target_file_bytes));
}

void move_chunk_bytes(std::optional<TargetFormat> format, OrbaxTarget& orbax, DcpTarget& dcp) {
  if (format != TargetFormat::kDcp || !orbax.chunk_bytes) return;
  dcp.chunk_bytes = static_cast<std::uint64_t>(*orbax.chunk_bytes);
  orbax.chunk_bytes.reset();
}

}  // namespace cairn::cli
