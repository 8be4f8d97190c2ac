// words.h -- what the completion scripts need of the parser, and one script for each shell.
#pragma once

#include "arguments/choices.h"

#include <CLI/App.hpp>

#include <string>
#include <string_view>
#include <vector>

namespace cairn::cli {

// An option or a positional argument.
struct Words {
  std::vector<std::string> flags;  // "--long", "-s"; none for an argument
  std::string name;                // of an argument
  std::string description;         // its first line
  bool takes_value = false;
  bool repeats = false;  // an argument that may be given several times
  Values values;
};
std::vector<Words> options_of(const CLI::App& command);
std::vector<Words> arguments_of(const CLI::App& command);
std::vector<const CLI::App*> commands_of(const CLI::App& app);
// The arguments of the `cairn` that prints the values of this kind, one per line, for the
// checkpoint that follows.
std::string lister_of(ValueKind kind);

// A description as one short line: joined, and cut at the end of a clause if it is long.
std::string one_line(std::string text);
std::string joined(const std::vector<std::string>& words, std::string_view between = " ");

std::string bash_script(const CLI::App& app);
std::string zsh_script(const CLI::App& app);
std::string fish_script(const CLI::App& app);

}  // namespace cairn::cli
