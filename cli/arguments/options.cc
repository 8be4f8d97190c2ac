// options.cc -- the options that all commands share: what the terminal shows.
#include "arguments/options.h"

#include "arguments/choices.h"
#include "screen/terminal.h"

#include <CLI/CLI.hpp>

#include <string>

namespace cairn::cli {
namespace {

// `more`: choices beside auto, always and never.
CLI::Option* add_when(CLI::App& command, const std::string& name, When& when,
                      const std::string& description, const std::vector<std::string>& more = {}) {
  auto* option = command.add_option_function<std::string>(
      name,
      [&when](const std::string& text) {
        when = text == "always"  ? When::kAlways
               : text == "never" ? When::kNever
               : text == "json"  ? When::kJson
                                 : When::kAuto;
      },
      description);
  std::vector<std::string> choices = {"auto", "always", "never"};
  choices.insert(choices.end(), more.begin(), more.end());
  return check_choice(option, choices)->type_name("WHEN");
}

}  // namespace

void add_screen_options(CLI::App& command, unsigned has) {
  ScreenSettings& settings = screen_settings();
  add_when(command, "--color", settings.color,
           "Colour: auto (the default: on a terminal), always or never");
  if ((has & kProgress) != 0)
    add_when(command, "--progress", settings.progress,
             "Progress on standard error: auto (the default: on a terminal), always, never or json "
             "(one object per line)",
             {"json"});
  if ((has & kReport) == 0) return;
  auto* quiet = command.add_flag("-q,--quiet", settings.quiet,
                                 "Print errors only; the exit status is the answer");
  if (auto* json = command.get_option_no_throw("--json")) quiet->excludes(json);
}

std::vector<CLI::App*> all_commands(CLI::App& app) {
  return app.get_subcommands([](CLI::App*) { return true; });
}

}  // namespace cairn::cli
