// help.cc -- the format of every --help page.
#include "help.h"

#include "terminal.h"

#include <CLI/CLI.hpp>

#include <memory>
#include <string>
#include <vector>

namespace cairn::cli {
namespace {

constexpr std::size_t kNameColumn = 24;

class HelpFormatter : public CLI::FormatterBase {
 public:
  std::string make_help(const CLI::App* app, std::string, CLI::AppFormatMode) const override {
    std::string out =
        app->get_description() + "\n\n" + heading("Usage") + "\n  " + usage(*app) + "\n";
    append_section(out, "Arguments",
                   app->get_options([](const CLI::Option* o) { return o->get_positional(); }));
    for (const auto& group : app->get_groups()) {
      if (group.empty()) continue;
      append_section(out, group, app->get_options([&](const CLI::Option* o) {
        return o->nonpositional() && o->get_group() == group;
      }));
    }
    const auto commands = app->get_subcommands([](const CLI::App*) { return true; });
    if (!commands.empty()) out += "\n" + heading("Commands") + "\n";
    for (const auto* command : commands)
      append_entry(out, command->get_name(), command->get_description());
    if (!app->get_footer().empty()) out += "\n" + app->get_footer() + "\n";
    return out;
  }

 private:
  static std::string heading(const std::string& text) {
    const Style& style = stdout_style();
    return std::string(style.bold) + text + ":" + std::string(style.reset);
  }

  static std::string usage(const CLI::App& app) {
    std::string out = app.get_parent() != nullptr ? app.get_parent()->get_name() + " " : "";
    out += app.get_name();
    if (app.get_parent() == nullptr) return out + " COMMAND ...";
    for (const auto* o :
         app.get_options([](const CLI::Option* option) { return option->get_positional(); }))
      out += o->get_required() ? " " + o->get_name() : " [" + o->get_name() + "]";
    return out + " [options]";
  }

  static void append_entry(std::string& out, const std::string& name, const std::string& text) {
    out += "  " + name;
    if (name.size() + 1 < kNameColumn)
      out.append(kNameColumn - name.size(), ' ');
    else
      out.append("\n").append(kNameColumn + 2, ' ');
    for (const char c : text) {  // further lines of a text are aligned with its first line
      out += c;
      if (c == '\n') out.append(kNameColumn + 2, ' ');
    }
    out += '\n';
  }

  static void append_section(std::string& out, const std::string& title,
                             const std::vector<const CLI::Option*>& options) {
    if (options.empty()) return;
    out += "\n" + heading(title) + "\n";
    for (const auto* o : options) {
      std::string name = o->get_positional() ? o->get_name() : o->get_name(false, true);
      for (std::size_t at = 0; (at = name.find(',', at)) != std::string::npos; at += 2)
        name.insert(at + 1, " ");
      if (!o->get_positional() && o->get_type_size() != 0) name += " " + o->get_type_name();
      append_entry(out, name, o->get_description());
    }
  }
};

}  // namespace

void style_help(CLI::App& app) { app.formatter(std::make_shared<HelpFormatter>()); }

}  // namespace cairn::cli
