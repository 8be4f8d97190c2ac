// help.cc -- the format of every --help page.
#include "screen/help.h"

#include "arguments/options.h"
#include "commands.h"
#include "screen/terminal.h"
#include "screen/text.h"
#include "source.h"

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace cairn::cli {
namespace {

constexpr std::size_t kNameColumn = 24;  // columns before the descriptions
constexpr std::size_t kMargin = 2;
constexpr std::size_t kLeastWidth = 60;
constexpr std::size_t kUsualWidth = 80;
constexpr std::size_t kMostWidth = 100;  // longer lines are hard to read

// The sections after a command's own options, in this order.
constexpr std::string_view kOwn = "Options";
constexpr std::array<std::string_view, 5> kSections = {"Leaves", "Writing", "Reading", "Stores",
                                                       "General"};

// The section of an option that does not name its own. One name means the same in every command.
std::string section_of(const CLI::Option& option) {
  static const std::map<std::string, std::string_view, std::less<>> kSectionOf = {
      {"include", "Leaves"},      {"exclude", "Leaves"},
      {"rename", "Leaves"},       {"transform", "Leaves"},
      {"dtype", "Leaves"},        {"skip-unsupported", "Leaves"},
      {"to", "Writing"},          {"compression", "Writing"},
      {"chunk-bytes", "Writing"}, {"target-file-bytes", "Writing"},
      {"as-item", "Writing"},     {"follow-links", "Writing"},
      {"durability", "Writing"},  {"commit-protocol", "Writing"},
      {"shard-bytes", "Writing"}, {"dialect", "Writing"},
      {"no-latest", "Writing"},   {"force", "Writing"},
      {"dry-run", "Writing"},     {"help", "General"},
      {"version", "General"},     {"color", "General"},
      {"progress", "General"},    {"quiet", "General"},
      {"json", "General"},
  };
  if (option.get_group() != kOwn) return option.get_group();
  for (const auto& name : option.get_lnames())
    if (const auto at = kSectionOf.find(name); at != kSectionOf.end())
      return std::string(at->second);
  return std::string(kOwn);
}

std::size_t page_width() {
  return stdout_is_terminal() ? std::clamp(terminal_width(), kLeastWidth, kMostWidth) : kUsualWidth;
}

std::string heading(std::string_view text) {
  const Style& style = stdout_style();
  return fmt::format("\n{}{}:{}\n", style.bold, text, style.reset);
}

std::string usage(const CLI::App& app) {
  std::string out = app.get_parent() != nullptr ? app.get_parent()->get_name() + " " : "";
  out += app.get_name();
  if (app.get_parent() == nullptr) return out + " COMMAND ...";
  for (const auto* o :
       app.get_options([](const CLI::Option* option) { return option->get_positional(); })) {
    const std::string name = o->get_name() + (o->get_expected_max() > 1 ? "..." : "");
    out += o->get_required() ? " " + name : " [" + name + "]";
  }
  return out + " [options]";
}

// "-l, --long", "--step N". CLI11's own text adds its notation of a flag's default value.
std::string option_text(const CLI::Option& option) {
  if (option.get_positional()) return option.get_name();
  std::string text;
  for (const auto& name : option.get_snames()) text += (text.empty() ? "-" : ", -") + name;
  for (const auto& name : option.get_lnames()) text += (text.empty() ? "--" : ", --") + name;
  if (option.get_expected_max() > 0) text += " " + option.get_type_name();
  return text;
}

std::string entry(const std::string& name, const std::string& text) {
  const std::size_t column = kMargin + kNameColumn;
  std::string out = std::string(kMargin, ' ') + name;
  if (name.size() + 1 < kNameColumn)
    out.append(kNameColumn - name.size(), ' ');
  else
    out.append("\n").append(column, ' ');
  return out + wrap_text(text, page_width() - column, column) + "\n";
}

// Breaks an example where the shell continues a line: between its words, but not inside quotes. A
// command with an explanation beside it stays one line.
std::string example(std::string_view line) {
  constexpr std::string_view kContinued = " \\\n      ";
  std::string out;
  const bool explained = line.find("   ", std::min(line.find_first_not_of(' '), line.size())) !=
                         std::string_view::npos;
  while (!explained && display_width(line) > page_width()) {
    char quote = '\0';
    std::size_t at = 0;  // the last space that fits
    for (std::size_t i = line.find_first_not_of(' '); i + 2 < page_width(); ++i) {
      const char c = line[i];
      if (quote == '\0' && c == ' ') at = i;
      if (c == quote)
        quote = '\0';
      else if (quote == '\0' && (c == '\'' || c == '"'))
        quote = c;
    }
    if (at == 0) break;
    out.append(line.substr(0, at)).append(kContinued);
    line.remove_prefix(at + 1);
  }
  return out.append(line) + "\n";
}

// The text after the options: paragraphs, and indented lines that stay lines.
std::string footer(std::string_view text) {
  std::string out;
  std::string paragraph;
  const auto end_paragraph = [&] {
    if (!paragraph.empty()) out += wrap_text(paragraph, page_width()) + "\n";
    paragraph.clear();
  };
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    if (!line.empty() && line.front() != ' ') {
      paragraph.append(line).append(" ");
      continue;
    }
    end_paragraph();
    out += line.empty() ? "\n" : example(line);
  }
  end_paragraph();
  return out;
}

class HelpFormatter : public CLI::FormatterBase {
 public:
  std::string make_help(const CLI::App* app, std::string, CLI::AppFormatMode) const override {
    std::string out = wrap_text(app->get_description(), page_width()) + "\n" + heading("Usage") +
                      "  " + usage(*app) + "\n";
    add_section(out, "Arguments",
                app->get_options([](const CLI::Option* o) { return o->get_positional(); }));
    const auto add_group = [&](std::string_view section) {
      add_section(out, section, app->get_options([&](const CLI::Option* o) {
        return o->nonpositional() && section_of(*o) == section;
      }));
    };
    add_group(kOwn);
    for (const auto& group : app->get_groups())  // of a command alone
      if (!group.empty() && group != kOwn &&
          std::find(kSections.begin(), kSections.end(), group) == kSections.end())
        add_group(group);
    for (const auto& section : kSections) add_group(section);
    const auto commands = app->get_subcommands([](const CLI::App*) { return true; });
    if (!commands.empty()) out += heading("Commands");
    for (const auto* command : commands)
      out += entry(command->get_name(), command->get_description());
    if (!app->get_footer().empty()) out += "\n" + footer(app->get_footer());
    return out;
  }

 private:
  static void add_section(std::string& out, std::string_view title,
                          const std::vector<const CLI::Option*>& options) {
    if (options.empty()) return;
    out += heading(title);
    for (const auto* o : options) out += entry(option_text(*o), o->get_description());
  }
};

}  // namespace

void style_help(CLI::App& app) { app.formatter(std::make_shared<HelpFormatter>()); }

namespace {

constexpr std::string_view kExitCodes = "exit-codes";
constexpr std::string_view kExitCodesText =
    "What the exit status of every command means.\n"
    "\n"
    "  0    good\n"
    "  1    the answer is no: verify found damage, diff a difference, doctor a problem; a GLOB,\n"
    "       --include or --exclude selects nothing\n"
    "  2    wrong usage: an unknown option, a bad value, a name that is in two items, leaves that\n"
    "       the target cannot hold\n"
    "  3    could not read or write: nothing is there, it is not a checkpoint, it is unfinished\n"
    "       or damaged (verify: 1), permission denied, the target exists, the disk is full\n"
    "  130  interrupted (Ctrl-C)\n"
    "  143  terminated (SIGTERM)\n";

}  // namespace

void setup_help(CLI::App& app, int& status) {
  const auto name = std::make_shared<std::string>();
  CLI::App* command = app.add_subcommand("help", "Show the help of a command");
  command->add_option("COMMAND", *name,
                      "A command, or exit-codes; without it, the list of commands");
  command->footer("Examples:\n  cairn help ls\n  cairn help exit-codes");
  command->callback([name, &app, &status] {
    const CLI::App* shown = &app;
    std::vector<std::string> words = {std::string(kExitCodes)};
    if (*name == kExitCodes) {
      out().show(kExitCodesText);
      status = kGood;
      return;
    }
    for (const CLI::App* each : all_commands(app)) {
      words.push_back(each->get_name());
      if (each->get_name() == *name) shown = each;
    }
    if (!name->empty() && shown == &app)
      throw UsageError("there is no command '" + *name + "'" + did_you_mean(*name, words));
    // App::help() of the whole command would show the help of `help`.
    out().show(app.get_formatter()->make_help(shown, "", CLI::AppFormatMode::Normal));
    status = kGood;
  });
}

}  // namespace cairn::cli
