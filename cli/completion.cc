// completion.cc -- cairn completion: scripts that teach a shell the commands, the options and their
// values. They are generated from the parser itself, so they are always up to date.
#include "arguments/choices.h"
#include "commands.h"
#include "completion/words.h"
#include "screen/terminal.h"

#include <memory>

namespace cairn::cli {

void setup_completion(CLI::App& app, int& status) {
  const auto shell = std::make_shared<std::string>();
  CLI::App* command = app.add_subcommand("completion", "Print a completion script for a shell");
  check_choice(command->add_option("SHELL", *shell, "bash, zsh or fish"), {"bash", "zsh", "fish"})
      ->required();
  command->footer(
      "Completes commands, options and their values: formats, steps, items and names of leaves,\n"
      "which it reads from the checkpoint.\n"
      "\n"
      "Examples:\n"
      "  source <(cairn completion bash)\n"
      "  cairn completion zsh > ~/.zfunc/_cairn\n"
      "  cairn completion fish > ~/.config/fish/completions/cairn.fish");
  command->callback([shell, &app, &status] {
    if (*shell == "bash")
      out().write(bash_script(app));
    else if (*shell == "zsh")
      out().write(zsh_script(app));
    else
      out().write(fish_script(app));
    status = kGood;
  });
}

}  // namespace cairn::cli
