// schema.cc -- cairn schema: prints the JSON Schemas of the JSON that commands print.
#include "arguments/choices.h"
#include "commands.h"
#include "inspect/schemas.h"
#include "screen/terminal.h"

#include <memory>
#include <string>
#include <vector>

namespace cairn::cli {

void setup_schema(CLI::App& app, int& status) {
  const auto name = std::make_shared<std::string>();
  CLI::App* command = app.add_subcommand("schema", "Print the JSON Schema of a command's JSON");
  std::vector<std::string> names;
  for (const Schema& schema : schemas()) names.emplace_back(schema.name);
  check_choice(command->add_option("NAME", *name,
                                   "A command that has --json, or 'progress' for the lines of "
                                   "--progress json; without NAME, list the names"),
               names);
  command->footer(
      "The schemas (draft 2020-12) list every member. Later versions may add members, but they\n"
      "do not rename or remove any. An installation has them in share/cairn/schemas.\n"
      "\n"
      "Examples:\n"
      "  cairn schema\n"
      "  cairn schema verify > verify.json");
  command->callback([name, &status] {
    for (const Schema& schema : schemas()) {
      if (name->empty()) out().show(std::string(schema.name) + "\n");
      if (schema.name == *name) out().show_json(schema.json);
    }
    status = kGood;
  });
}

}  // namespace cairn::cli
