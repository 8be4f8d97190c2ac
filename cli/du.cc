// du.cc -- cairn du: shows how many parameters and bytes each part of a checkpoint has.
#include "commands.h"
#include "screen/terminal.h"
#include "screen/text.h"
#include "source.h"

#include <fmt/format.h>

namespace cairn::cli {
namespace {

struct DuOptions {
  Source source;
  std::string glob;
  std::vector<std::string> exclude;
  std::size_t depth = 2;
  bool json = false;
};

// "38.5 %" of all bytes.
std::string share_text(std::uint64_t part, std::uint64_t whole) {
  if (whole == 0) return "";
  return fmt::format("{:.1f} %", 100.0 * static_cast<double>(part) / static_cast<double>(whole));
}

void add_row(Table& table, const std::string& name, const UsageCounts& counts,
             const UsageCounts& all) {
  table.add({name, short_count_text(counts.elements), bytes_text(counts.nbytes),
             bytes_text(counts.stored_nbytes), share_text(counts.nbytes, all.nbytes)});
}

void add_rows(Table& table, const UsageNode& node, const UsageCounts& all, std::size_t level) {
  for (const UsageNode& child : node.children) {
    add_row(table, std::string(2 * level, ' ') + child.name, child.counts, all);
    add_rows(table, child, all, level + 1);
  }
}

Table usage_table(const std::string& title) {
  return Table({{title, Align::kLeft, {}},
                {"parameters", Align::kRight, {}},
                {"bytes", Align::kRight, {}},
                {"stored", Align::kRight, {}},
                {"share", Align::kRight, stdout_style().cyan}});
}

// "96.2 M parameters, 385 MiB; optimizer 192.5 M, 770 MiB"
std::string summary_text(const Usage& usage) {
  std::string text = short_count_text(usage.parameters.elements) +
                     (usage.parameters.elements == 1 ? " parameter, " : " parameters, ") +
                     bytes_text(usage.parameters.nbytes);
  if (usage.optimizer.leaves > 0)
    text += "; optimizer " + short_count_text(usage.optimizer.elements) + ", " +
            bytes_text(usage.optimizer.nbytes);
  const UsageCounts& all = usage.total.counts;
  return text + fmt::format("\n{} in all, {} stored\n", bytes_text(all.nbytes),
                            bytes_text(all.stored_nbytes));
}

std::string usage_text(const Usage& usage) {
  const UsageCounts& all = usage.total.counts;
  Table modules = usage_table("module");
  add_rows(modules, usage.total, all, 0);
  Table types = usage_table("type");
  for (const UsageNode& dtype : usage.dtypes) add_row(types, dtype.name, dtype.counts, all);
  std::string text;
  for (Table* table : {&modules, &types}) {
    table->fit(terminal_width());
    if (!table->empty()) text += table->text(true) + "\n";
  }
  return text + summary_text(usage);
}

int run_du(DuOptions& options) {
  const auto checkpoint = open_source(options.source);
  std::vector<std::string> include;
  if (!options.glob.empty()) include.push_back(options.glob);
  const auto indices = select_tensors(*checkpoint, include, options.exclude);
  const Usage sums = usage(*checkpoint, indices, options.depth);
  if (options.json)
    out().show_json(usage_json(sums));
  else if (!indices.empty())
    out().show(usage_text(sums));
  return selected_status(*checkpoint, indices, options.glob, options.exclude);
}

}  // namespace

void setup_du(CLI::App& app, int& status) {
  const auto options = std::make_shared<DuOptions>();
  CLI::App* command =
      app.add_subcommand("du", "Show parameters, bytes and shares by module and by type");
  add_source(*command, options->source);
  command->add_option("GLOB", options->glob, "Only names that match");
  check_uint64(command->add_option("--depth", options->depth,
                                   "Levels of modules to show (default: 2; 0: only the totals)"))
      ->type_name("N");
  add_exclude(*command, options->exclude);
  command->add_flag("--json", options->json, "Print one JSON object (docs/reference/json.md)");
  command->footer(
      "Modules are the parts of names between '.' or '/'. Everything counts as parameters except\n"
      "the state of an optimizer: leaves with a part opt_state, optimizer, optimizer_state,\n"
      "optimizer_states, opt, mu, nu, exp_avg, exp_avg_sq or .OPTIMIZER_SLOT in their name.\n"
      "\n"
      "Examples:\n"
      "  cairn du ckpt\n"
      "  cairn du ckpt 'params.*' --depth 4\n"
      "  cairn du ckpt --json | jq .parameters.elements");
  command->callback([options, &status] { status = run_du(*options); });
}

}  // namespace cairn::cli
