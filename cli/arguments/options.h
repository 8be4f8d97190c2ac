// options.h -- the options that all commands share: what the terminal shows.
#pragma once

#include <CLI/App.hpp>

#include <vector>

namespace cairn::cli {

// What a command has beside its output; combined with |.
enum : unsigned {
  kProgress = 1,  // it may take long: --progress
  kReport = 2,    // it does something, and the output only reports it: --quiet
};
// Adds --color, and --progress and --quiet to a command that has them.
void add_screen_options(CLI::App& command, unsigned has);
// The subcommands, in the order of their setup.
std::vector<CLI::App*> all_commands(CLI::App& app);

}  // namespace cairn::cli
