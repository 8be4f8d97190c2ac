// help.h -- the format of every --help page.
#pragma once

#include <CLI/App.hpp>

namespace cairn::cli {

// The sections, in order: usage, description, arguments, options by group, commands, and the footer
// with examples.
void style_help(CLI::App& app);

}  // namespace cairn::cli
