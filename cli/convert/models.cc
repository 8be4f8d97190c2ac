// models.cc -- cairn models: lists the model maps, or shows one.
#include <cairn/convert.h>
#include "commands.h"
#include "screen/terminal.h"
#include "screen/text.h"
#include "source.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

namespace cairn::cli {
namespace {

struct ModelsArguments {
  std::string name;
  bool json = false;
};

std::string list_of_maps() {
  const std::vector<ModelMapInfo> maps = model_maps();
  std::size_t width = 0;
  for (const ModelMapInfo& map : maps) width = std::max(width, map.name.size());
  std::string text;
  for (const ModelMapInfo& map : maps)
    text += fmt::format("{:<{}}  {}\n", map.name, width, map.title);
  return text;
}

std::string lines_text(const char* title, const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines)
    text +=
        fmt::format("{:<9}{}\n", text.empty() ? title : "", wrap_text(printable_text(line), 91, 9));
  return text;
}

std::string one_map(const ModelMapInfo& map) {
  std::string text = printable_text(map.title) + "\n\n";
  text += fmt::format("sides    {} (first), {} (second)\n", printable_text(map.first_side),
                      printable_text(map.second_side));
  text += lines_text("source", map.sources) + lines_text("tested", map.tested);
  for (const ModelMapOption& option : map.options) {
    std::string values;
    for (const std::string& value : option.values)
      values += (values.empty() ? "" : ", ") + printable_text(value);
    text += fmt::format("\n--set {}={}\n", printable_text(option.name),
                        values.empty() ? "VALUE" : values);
    if (!option.help.empty()) text += "    " + wrap_text(printable_text(option.help), 96, 4) + "\n";
    text += "    default: " + wrap_text(printable_text(option.default_value), 87, 13) + "\n";
  }
  return text;
}

int run_models(const ModelsArguments& arguments) {
  if (arguments.json) {
    out().show_json(model_maps_json(
        arguments.name.empty() ? model_maps() : std::vector{model_map(arguments.name)}));
    return kGood;
  }
  out().show(arguments.name.empty() ? list_of_maps() : one_map(model_map(arguments.name)));
  return kGood;
}

}  // namespace

void setup_models(CLI::App& app, int& status) {
  const auto arguments = std::make_shared<ModelsArguments>();
  CLI::App* command =
      app.add_subcommand("models", "List the model maps of 'cairn convert --model'");
  command
      ->add_option("NAME", arguments->name,
                   "A map, or a file of two-sided rules: show its sides, its sources, its tests "
                   "and its options")
      ->type_name("");
  command->add_flag("--json", arguments->json, "Print the maps as a JSON list");
  command->footer(
      "A map converts the names, shapes and values of one kind of model between two programs,\n"
      "such as MaxText and Hugging Face's transformers. It works in both directions.\n"
      "\n"
      "Examples:\n"
      "  cairn models\n"
      "  cairn models llama\n"
      "  cairn convert run/items Llama-3-8B --model llama --hf-assets hf/Llama-3-8B");
  command->callback([arguments, &status] { status = run_models(*arguments); });
}

}  // namespace cairn::cli
