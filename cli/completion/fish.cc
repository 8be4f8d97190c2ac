// fish.cc -- the completion script for fish.
#include "completion/words.h"

#include <fmt/format.h>

namespace cairn::cli {
namespace {

std::string fish_text(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '\'' || c == '\\') out += '\\';
    out += c;
  }
  return out;
}

std::string fish_action(const Values& values) {
  switch (values.kind) {
    case ValueKind::kNothing:
      return " -x";
    case ValueKind::kWords:
      return " -x -a '" + joined(values.words) + "'";
    case ValueKind::kFile:
      return " -r -F";
    default:
      return " -x -a '(__cairn_ask " + lister_of(values.kind) + ")'";
  }
}

// Options with a value, so that the script can tell their values from arguments.
std::string fish_start(const CLI::App& app) {
  std::string takes;
  for (const auto* command : commands_of(app))
    for (const auto& option : options_of(*command))
      for (const auto& flag : option.flags)
        if (option.takes_value && (takes + " ").find(" " + flag + " ") == std::string::npos)
          takes += " " + flag;
  return fmt::format(
      R"sh(# fish completion of cairn: save it as ~/.config/fish/completions/cairn.fish
function __cairn_arguments
  set -l words (commandline -opc)
  set -l skip 0
  for word in $words[3..-1]
    if test $skip = 1
      set skip 0
    else if contains -- $word{}
      set skip 1
    else if not string match -q -- '-*' $word
      echo $word
    end
  end
end
function __cairn_ask
  set -l words (__cairn_arguments)
  cairn $argv -- $words[1] 2>/dev/null
end
function __cairn_at
  __fish_seen_subcommand_from $argv[1]; and test (count (__cairn_arguments)) = $argv[2]
end
complete -c cairn -f
)sh",
      takes);
}

}  // namespace

std::string fish_script(const CLI::App& app) {
  std::string text = fish_start(app);
  for (const auto* command : commands_of(app)) {
    const std::string& name = command->get_name();
    text += fmt::format("complete -c cairn -n __fish_use_subcommand -a {} -d '{}'\n", name,
                        fish_text(one_line(command->get_description())));
    for (const auto& option : options_of(*command)) {
      text += fmt::format("complete -c cairn -n '__fish_seen_subcommand_from {}'", name);
      for (const auto& flag : option.flags)
        text += flag.starts_with("--") ? " -l " + flag.substr(2) : " -s " + flag.substr(1);
      text += fmt::format("{} -d '{}'\n", option.takes_value ? fish_action(option.values) : "",
                          fish_text(option.description));
    }
    std::size_t at = 0;
    for (const auto& argument : arguments_of(*command)) {
      // without the " -x" or " -r" of an option: -a offers words, and -F files
      const std::string action = fish_action(argument.values).substr(3);
      if (!action.empty())
        text += fmt::format("complete -c cairn -n '__cairn_at {} {}'{}\n", name, at, action);
      ++at;
    }
  }
  return text;
}

}  // namespace cairn::cli
