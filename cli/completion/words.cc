// words.cc -- what the completion scripts need of the parser.
#include "completion/words.h"

namespace cairn::cli {
namespace {

std::vector<Words> words_of(const CLI::App& command, bool positional) {
  std::vector<Words> all;
  for (const auto* o : command.get_options(
           [&](const CLI::Option* option) { return option->get_positional() == positional; })) {
    Words words{{},
                positional ? o->get_name() : "",
                first_line(o->get_description()),
                o->get_expected_max() > 0,
                values_of(command.get_name(), *o)};
    for (const auto& name : o->get_lnames()) words.flags.push_back("--" + name);
    for (const auto& name : o->get_snames()) words.flags.push_back("-" + name);
    all.push_back(std::move(words));
  }
  return all;
}

}  // namespace

std::vector<Words> options_of(const CLI::App& command) { return words_of(command, false); }
std::vector<Words> arguments_of(const CLI::App& command) { return words_of(command, true); }

std::vector<const CLI::App*> commands_of(const CLI::App& app) {
  return app.get_subcommands([](const CLI::App*) { return true; });
}

std::string lister_of(ValueKind kind) {
  switch (kind) {
    case ValueKind::kSteps:
      return "info --steps";
    case ValueKind::kItems:
      return "info --items";
    case ValueKind::kLeaves:
      return "ls --names";
    default:
      return "";
  }
}

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

std::string joined(const std::vector<std::string>& words, std::string_view between) {
  std::string text;
  for (const auto& word : words) text.append(text.empty() ? "" : between).append(word);
  return text;
}

}  // namespace cairn::cli
