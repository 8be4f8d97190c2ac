// words.cc -- what the completion scripts need of the parser.
#include "completion/words.h"

#include <algorithm>
#include <cstddef>
#include <utility>

namespace cairn::cli {
namespace {

std::vector<Words> words_of(const CLI::App& command, bool positional) {
  std::vector<Words> all;
  for (const auto* o : command.get_options(
           [&](const CLI::Option* option) { return option->get_positional() == positional; })) {
    Words words{{},
                positional ? o->get_name() : "",
                one_line(o->get_description()),
                o->get_expected_max() > 0,
                positional && o->get_expected_max() > 1,
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

std::string one_line(std::string text) {
  constexpr std::size_t kMost = 78;  // beside the word itself, on a usual screen
  constexpr std::string_view kMore = ", ...";
  std::replace(text.begin(), text.end(), '\n', ' ');
  if (text.size() <= kMost) return text;
  const auto is_open = [&](std::size_t end) {  // whether a bracket is open there
    return std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(end), '(') >
           std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(end), ')');
  };
  for (const std::string_view mark : {"; ", " (", ", "}) {
    std::size_t at = text.rfind(mark, kMost - kMore.size());
    while (at != std::string::npos && at > 0 && is_open(at)) at = text.rfind(mark, at - 1);
    if (at == std::string::npos || at == 0) continue;
    return text.substr(0, at).append(mark == ", " ? kMore : "");
  }
  return text;
}

std::string joined(const std::vector<std::string>& words, std::string_view between) {
  std::string text;
  for (const auto& word : words) text.append(text.empty() ? "" : between).append(word);
  return text;
}

}  // namespace cairn::cli
