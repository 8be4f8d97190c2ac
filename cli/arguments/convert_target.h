// convert_target.h -- the options of commands that write a checkpoint in any format, and the work
// and the report that they share.
#pragma once

#include <cairn/convert.h>
#include "arguments/orbax_target.h"

#include <CLI/App.hpp>

#include <chrono>
#include <string>
#include <utility>
#include <vector>

namespace cairn::cli {

struct Source;

// The help of the path that is written.
inline constexpr const char* kTargetHelp =
    "What to write: NAME.safetensors, NAME.npz, NAME.msgpack,\n"
    "NAME.pt (PyTorch), NAME.index (TensorFlow), or a folder for an\n"
    "Orbax or Distributed Checkpoint; also as a URL\n"
    "(s3://bucket/NAME.npz, gs://)";

// The values as they are given.
struct ConvertTargetArguments {
  std::string path;
  std::vector<std::string> metadata;
  std::string format;
  std::string dtype;
  std::string shard_bytes;
  OrbaxTargetArguments orbax;
  std::string dialect;
  bool json = false;
  ConvertOptions options;
};

// Adds --to, --include and --exclude.
void add_target_selection(CLI::App& command, ConvertTargetArguments& arguments);
// Adds --dry-run, the options of the formats, --force and --json.
void add_target_options(CLI::App& command, ConvertTargetArguments& arguments);
// Parses LEFT=RIGHT, split at the first '='. `form` says in words what was expected.
std::pair<std::string, std::string> parse_pair(const std::string& option, const std::string& text,
                                               const std::string& form);
// Parses the values into `options`. Threads and stores are those of the source. Throws UsageError.
void finish_convert_target(ConvertTargetArguments& arguments, const Source& source);

// The lines that say what was written.
std::string report_text(const ConvertReport& report, double seconds);

// How a command shows its work.
struct ConvertScreen {
  const char* label;                            // of the progress bar
  std::chrono::steady_clock::time_point start;  // of the command
  std::string plan = {};                        // lines that --dry-run shows first
};
// Converts, and shows the report. Returns the exit status.
int convert_source(const Checkpoint& source, ConvertTargetArguments& arguments,
                   const ConvertScreen& screen);

}  // namespace cairn::cli
