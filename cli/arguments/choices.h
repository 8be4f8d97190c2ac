// choices.h -- the values that an option accepts, for the parser and for completion.
#pragma once

#include <CLI/App.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace cairn::cli {

// Makes the option reject every other word, and completion offer these.
CLI::Option* check_choice(CLI::Option* option, const std::vector<std::string>& choices);

// What a shell should offer for the value of an option or argument.
enum class ValueKind : std::uint8_t {
  kNothing,  // a number, a size, a pattern, a new name
  kWords,    // one of Values::words
  kFile,
  kSteps,   // the steps of the checkpoint
  kItems,   // its items
  kLeaves,  // the names of its leaves
};
struct Values {
  ValueKind kind = ValueKind::kNothing;
  std::vector<std::string> words;
};
// `command` is the name of the subcommand that has the option.
Values values_of(const std::string& command, const CLI::Option& option);

}  // namespace cairn::cli
