// help.h -- the format of every --help page.
#pragma once

#include <CLI/App.hpp>

namespace cairn::cli {

// The sections, in order: usage, description, arguments, the command's own options, the options
// that several commands share (Leaves, Writing, Reading, General), commands, and the footer with
// examples. Lines fit the terminal; without one, 80 columns. A footer's lines flow together, except
// those that begin with a space.
void style_help(CLI::App& app);

}  // namespace cairn::cli
