// completion.cc -- cairn completion: scripts that teach a shell the commands and options. They are
// generated from the parser itself, so they are always up to date.
#include "commands.h"
#include "source.h"
#include "terminal.h"

#include <fmt/format.h>

namespace cairn::cli {
namespace {

struct OptionWords {
  std::vector<std::string> longs, shorts;
  std::string description;
  bool takes_value = false;
};

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

std::vector<OptionWords> option_words(const CLI::App& command) {
  std::vector<OptionWords> words;
  for (const auto* o :
       command.get_options([](const CLI::Option* option) { return option->nonpositional(); }))
    words.push_back({o->get_lnames(), o->get_snames(), first_line(o->get_description()),
                     o->get_type_size() != 0});
  return words;
}

std::vector<const CLI::App*> commands_of(const CLI::App& app) {
  return app.get_subcommands([](const CLI::App*) { return true; });
}

std::string join_flags(const CLI::App& command) {
  std::string text;
  for (const auto& words : option_words(command)) {
    for (const auto& name : words.longs) text += (text.empty() ? "--" : " --") + name;
    for (const auto& name : words.shorts) text += (text.empty() ? "-" : " -") + name;
  }
  return text;
}

// The second positional argument of `cat` names a tensor of the checkpoint before it. The script
// calls the command itself to list them.
std::string bash_script(const CLI::App& app) {
  std::string names;
  std::string cases;
  for (const auto* command : commands_of(app)) {
    names += (names.empty() ? "" : " ") + command->get_name();
    cases += fmt::format("    {}) flags='{}' ;;\n", command->get_name(), join_flags(*command));
  }
  return fmt::format(
      R"sh(# bash completion of cairn: source it, or save it as /etc/bash_completion.d/cairn
_cairn() {{
  local word="${{COMP_WORDS[COMP_CWORD]}}" command="${{COMP_WORDS[1]}}" flags=''
  if [ "$COMP_CWORD" -eq 1 ]; then
    COMPREPLY=($(compgen -W '{} --help --version' -- "$word"))
    return
  fi
  case "$command" in
{}  esac
  if [[ "$word" == -* ]]; then
    COMPREPLY=($(compgen -W "$flags" -- "$word"))
  elif [ "$command" = cat ] && [ "$COMP_CWORD" -eq 3 ]; then
    local IFS=$'\n'
    COMPREPLY=($(compgen -W "$(cairn ls --names -- "${{COMP_WORDS[2]}}" 2>/dev/null)" -- "$word"))
  elif [ "$command" = completion ]; then
    COMPREPLY=($(compgen -W 'bash zsh fish' -- "$word"))
  else
    COMPREPLY=($(compgen -f -- "$word"))
  fi
}}
complete -o filenames -F _cairn cairn
)sh",
      names, cases);
}

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

std::string zsh_script(const CLI::App& app) {
  std::string names;
  std::string cases;
  for (const auto* command : commands_of(app)) {
    names += fmt::format("    '{}:{}'\n", command->get_name(),
                         zsh_text(first_line(command->get_description())));
    cases += fmt::format("    {})\n      _arguments \\\n", command->get_name());
    for (const auto& words : option_words(*command)) {
      const std::string value = words.takes_value ? ":value:_files" : "";
      for (const auto& name : words.longs)
        cases += fmt::format("        '--{}[{}]{}' \\\n", name, zsh_text(words.description), value);
      for (const auto& name : words.shorts)
        cases += fmt::format("        '-{}[{}]{}' \\\n", name, zsh_text(words.description), value);
    }
    if (command->get_name() == "cat")
      cases += "        '1:checkpoint:_files' '2:tensor:_cairn_tensors' ;;\n";
    else
      cases += command->get_name() == "completion" ? "        '1:shell:(bash zsh fish)' ;;\n"
                                                   : "        '*:file:_files' ;;\n";
  }
  return fmt::format(R"sh(#compdef cairn
# zsh completion of cairn: save it as _cairn in a folder of $fpath
_cairn_tensors() {{
  local -a names
  names=("${{(@f)$(cairn ls --names -- "${{(Q)line[1]}}" 2>/dev/null)}}")
  compadd "$@" -a names
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

std::string fish_text(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '\'' || c == '\\') out += '\\';
    out += c;
  }
  return out;
}

std::string fish_script(const CLI::App& app) {
  std::string text =
      "# fish completion of cairn: save it as ~/.config/fish/completions/cairn.fish\n";
  for (const auto* command : commands_of(app)) {
    const std::string& name = command->get_name();
    text += fmt::format("complete -c cairn -n __fish_use_subcommand -f -a {} -d '{}'\n", name,
                        fish_text(first_line(command->get_description())));
    for (const auto& words : option_words(*command)) {
      text += fmt::format("complete -c cairn -n '__fish_seen_subcommand_from {}'", name);
      for (const auto& flag : words.longs) text += " -l " + flag;
      for (const auto& flag : words.shorts) text += " -s " + flag;
      text +=
          fmt::format("{} -d '{}'\n", words.takes_value ? " -r" : "", fish_text(words.description));
    }
  }
  text += "complete -c cairn -n '__fish_seen_subcommand_from completion' -f -a 'bash zsh fish'\n";
  return text +
         "complete -c cairn -n '__fish_seen_subcommand_from cat' -a '(cairn ls --names -- "
         "(commandline -opc)[3] 2>/dev/null)'\n";
}

}  // namespace

void setup_completion(CLI::App& app, int& status) {
  const auto shell = std::make_shared<std::string>();
  CLI::App* command = app.add_subcommand("completion", "Print a completion script for a shell");
  command->add_option("SHELL", *shell, "bash, zsh or fish")->required();
  command->footer(
      "Examples:\n"
      "  source <(cairn completion bash)\n"
      "  cairn completion zsh > ~/.zfunc/_cairn\n"
      "  cairn completion fish > ~/.config/fish/completions/cairn.fish");
  command->callback([shell, &app, &status] {
    if (*shell == "bash")
      out().write(bash_script(app));
    else if (*shell == "zsh")
      out().write(zsh_script(app));
    else if (*shell == "fish")
      out().write(fish_script(app));
    else
      throw UsageError("no completion for shell '" + *shell + "': expected bash, zsh or fish");
    status = kGood;
  });
}

}  // namespace cairn::cli
