// bash.cc -- the completion script for bash.
#include "completion/words.h"

#include <fmt/format.h>

namespace cairn::cli {
namespace {

// Names come from files, so nothing expands them: compgen -W would run `$(...)` in a name.
constexpr std::string_view kBashStart =
    R"sh(# bash completion of cairn: source it, or save it as /etc/bash_completion.d/cairn
_cairn_offer() {
  local line
  while IFS= read -r line; do
    [[ "$line" == "$word"* ]] && COMPREPLY+=("$line")
  done
}
_cairn_ask() { COMPREPLY=(); _cairn_offer < <(cairn "$@" -- "$checkpoint" 2>/dev/null); }
_cairn_files() { _cairn_offer < <(compgen -f -- "$word"); }
)sh";

std::string bash_action(const Values& values) {
  switch (values.kind) {
    case ValueKind::kNothing:
      return ":";
    case ValueKind::kWords:
      return "_cairn_offer <<< $'" + joined(values.words, "\\n") + "'";
    case ValueKind::kFile:
      return "_cairn_files";
    default:
      return "_cairn_ask " + lister_of(values.kind);
  }
}

}  // namespace

std::string bash_script(const CLI::App& app) {
  std::string names;
  std::string cases;
  std::string values;
  for (const auto* command : commands_of(app)) {
    const std::string& name = command->get_name();
    names += name + "\\n";
    std::string flags;
    std::string takes;
    for (const auto& option : options_of(*command))
      for (const auto& flag : option.flags) {
        flags += flag + "\\n";
        if (!option.takes_value) continue;
        takes += flag + " ";
        values += fmt::format("    '{} {}') {} ;;\n", name, flag, bash_action(option.values));
      }
    cases += fmt::format("    {}) flags=$'{}' takes=' {}' ;;\n", name, flags, takes);
    std::size_t at = 0;
    for (const auto& argument : arguments_of(*command))
      values += fmt::format("    '{} {}') {} ;;\n", name, at++, bash_action(argument.values));
  }
  return std::string(kBashStart) + fmt::format(R"sh(_cairn() {{
  local word="${{COMP_WORDS[COMP_CWORD]}}" before="${{COMP_WORDS[COMP_CWORD-1]}}"
  local command="${{COMP_WORDS[1]}}" flags='' takes='' checkpoint='' position=0 i
  COMPREPLY=()
  if [ "$COMP_CWORD" -eq 1 ]; then
    _cairn_offer <<< $'{}--help\n--version'
    return
  fi
  case "$command" in
{}  esac
  if [ "$word" = = ]; then
    word=''
  elif [ "$before" = = ]; then
    before="${{COMP_WORDS[COMP_CWORD-2]}}"
  fi
  for ((i = 2; i < COMP_CWORD; i++)); do
    if [[ "$takes" == *" ${{COMP_WORDS[i]}} "* ]]; then
      [ "${{COMP_WORDS[i+1]}}" = = ] && ((i++))
      ((i++))
    elif [[ "${{COMP_WORDS[i]}}" != -* ]]; then
      [ "$position" -eq 0 ] && checkpoint="${{COMP_WORDS[i]}}"
      ((position++))
    fi
  done
  if [[ "$takes" == *" $before "* ]]; then
    position="$before"
  elif [[ "$word" == -* ]]; then
    _cairn_offer <<< "$flags"
    return
  fi
  case "$command $position" in
{}    *) _cairn_files ;;
  esac
}}
complete -o filenames -F _cairn cairn
)sh",
                                               names, cases, values);
}

}  // namespace cairn::cli
