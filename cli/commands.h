// commands.h -- the subcommands. Each file defines one: its options, its --help text, and the code
// that runs it.
#pragma once

#include <CLI/App.hpp>

namespace cairn::cli {

// What a user reads of these is in screen/help.cc and docs/guides/command.md.
enum ExitStatus : int {
  kGood = 0,
  kNo = 1,       // the answer is "no": the checkpoint is damaged, they differ, or nothing matches
  kUsage = 2,    // wrong usage
  kFailure = 3,  // the command could not read or write
};

// Adds a subcommand to `app`. After the subcommand has run, `status` holds the exit status.
void setup_ls(CLI::App& app, int& status);
void setup_info(CLI::App& app, int& status);
void setup_tree(CLI::App& app, int& status);
void setup_du(CLI::App& app, int& status);
void setup_cat(CLI::App& app, int& status);
void setup_stats(CLI::App& app, int& status);
void setup_diff(CLI::App& app, int& status);
void setup_report(CLI::App& app, int& status);
void setup_verify(CLI::App& app, int& status);
void setup_convert(CLI::App& app, int& status);
void setup_merge(CLI::App& app, int& status);
void setup_models(CLI::App& app, int& status);
void setup_repair(CLI::App& app, int& status);
void setup_reshard(CLI::App& app, int& status);
void setup_compact(CLI::App& app, int& status);
void setup_steps(CLI::App& app, int& status);
void setup_prune(CLI::App& app, int& status);
void setup_clean(CLI::App& app, int& status);
void setup_bench(CLI::App& app, int& status);
void setup_doctor(CLI::App& app, int& status);
void setup_dump(CLI::App& app, int& status);
void setup_schema(CLI::App& app, int& status);
void setup_completion(CLI::App& app, int& status);
void setup_help(CLI::App& app, int& status);

}  // namespace cairn::cli
