// help.h -- the look of every --help.
#pragma once

#include <CLI/App.hpp>

namespace cairn::cli {

// Usage, what it does, arguments, options by group, commands, examples (the footer).
void style_help(CLI::App& app);

}  // namespace cairn::cli
