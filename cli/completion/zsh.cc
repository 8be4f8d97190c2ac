// zsh.cc -- the completion script for zsh.
#include "completion/words.h"

#include <fmt/format.h>

namespace cairn::cli {
namespace {

// Escapes text for zsh's _arguments: '[', ']' and ':' have a special meaning, and a quote would end
// the word.
std::string zsh_text(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '[' || c == ']' || c == ':') out += '\\';
    out += c == '\'' ? '`' : c;
  }
  return out;
}

std::string zsh_action(const Values& values) {
  switch (values.kind) {
    case ValueKind::kNothing:
      return " ";
    case ValueKind::kWords:
      return "(" + joined(values.words) + ")";
    case ValueKind::kFile:
      return "_files";
    default:
      return "{_cairn_ask " + lister_of(values.kind) + "}";
  }
}

std::string zsh_cases(const CLI::App& command) {
  std::string text = fmt::format("    {})\n      _arguments", command.get_name());
  const auto add = [&](const std::string& spec) { text += fmt::format(" \\\n        '{}'", spec); };
  for (const auto& option : options_of(command))
    for (const auto& flag : option.flags) {
      const bool is_long = flag.starts_with("--");
      const std::string value =
          option.takes_value ? ":value:" + zsh_action(option.values) : std::string();
      add(fmt::format("{}{}[{}]{}", flag, option.takes_value && is_long ? "=" : "",
                      zsh_text(option.description), value));
    }
  std::size_t at = 1;
  for (const auto& argument : arguments_of(command))
    add(fmt::format("{}:{}:{}", argument.repeats ? "*" : std::to_string(at++), argument.name,
                    zsh_action(argument.values)));
  return text + " ;;\n";
}

}  // namespace

std::string zsh_script(const CLI::App& app) {
  std::string names;
  std::string cases;
  for (const auto* command : commands_of(app)) {
    names += fmt::format("    '{}:{}'\n", command->get_name(),
                         zsh_text(one_line(command->get_description())));
    cases += zsh_cases(*command);
  }
  return fmt::format(R"sh(#compdef cairn
# zsh completion of cairn: save it as _cairn in a folder of $fpath
_cairn_ask() {{
  local -a found
  found=("${{(@f)$(cairn "$1" "$2" -- "${{(Q)line[1]}}" 2>/dev/null)}}")
  shift 2
  compadd "$@" -a found
}}
_cairn() {{
  local -a commands
  commands=(
{}  )
  if (( CURRENT == 2 )); then
    _describe command commands
    return
  fi
  shift words
  (( CURRENT-- ))
  case $words[1] in
{}  esac
}}
# Loaded from $fpath this runs in place of the first completion; sourced, it only defines.
if [ "$funcstack[1]" = _cairn ]; then
  _cairn "$@"
else
  compdef _cairn cairn
fi
)sh",
                     names, cases);
}

}  // namespace cairn::cli
