// info.cc -- cairn info: prints a summary of a checkpoint.
#include "commands.h"
#include "screen/terminal.h"
#include "screen/text.h"
#include "source.h"

#include <fmt/format.h>

#include <algorithm>

namespace cairn::cli {
namespace {

struct InfoOptions {
  Source source;
  bool json = false, steps = false, items = false;
};

using Rows = std::vector<std::pair<std::string, std::string>>;

void add_counts(const Summary& sum, Rows& rows) {
  std::string leaves = plural(sum.arrays, "array");
  if (sum.strings > 0) leaves += ", " + plural(sum.strings, "string");
  if (sum.empty > 0) leaves += ", " + plural(sum.empty, "empty node");
  if (sum.custom > 0) leaves += fmt::format(", {} of custom types", count_text(sum.custom));
  if (sum.unreadable > 0) leaves += "; " + count_text(sum.unreadable) + " of them unreadable";
  rows.emplace_back("leaves", leaves);
  rows.emplace_back("elements", count_text(sum.elements));
  rows.emplace_back(
      "size", bytes_text(sum.nbytes) + " in memory, " + bytes_text(sum.stored_nbytes) + " stored");
  std::string types;
  for (const auto& [name, count] : sum.dtypes)
    types += fmt::format("{}{} {}", types.empty() ? "" : ", ", name, count_text(count));
  if (!types.empty()) rows.emplace_back("dtypes", types);
}

std::string info_text(const Checkpoint& checkpoint) {
  const CheckpointInfo& info = checkpoint.info();
  Rows rows{{"path", info.path}, {"format", info.format}, {"layout", info.layout}};
  if (info.step) rows.emplace_back("step", std::to_string(*info.step));
  std::string items;
  for (const auto& item : info.items) items.append(items.empty() ? "" : ", ").append(item);
  if (!items.empty()) rows.emplace_back("items", items);
  add_counts(summarize(checkpoint), rows);
  const auto is_shown = [&](const std::string& label) {
    return std::any_of(rows.begin(), rows.end(), [&](const auto& r) { return r.first == label; });
  };
  for (const auto& fact : info.facts)
    if (!is_shown(fact.first)) rows.push_back(fact);
  if (!info.custom_metadata.empty()) rows.emplace_back("custom metadata", info.custom_metadata);
  for (const auto& [item, text] : info.item_metadata)
    rows.emplace_back(item.empty() ? "item metadata" : "metadata of item " + item, text);
  std::size_t width = 0;
  for (const auto& row : rows) width = std::max(width, display_width(row.first));
  const Style& style = stdout_style();
  std::string text;
  for (const auto& [label, value] : rows)
    text += fmt::format("{}{}{}{}  {}\n", style.dim, printable_text(label), style.reset,
                        std::string(width - display_width(label), ' '),
                        fold_text(printable_text(value), width + 2));
  return text;
}

void show_steps(const Source& source) {
  try {
    for (const std::int64_t step : step_numbers(source.path, source.options.store))
      out().show(std::to_string(step) + "\n");
  } catch (const Error& e) {
    throw Failure(e.message());
  }
}

}  // namespace

void setup_info(CLI::App& app, int& status) {
  const auto options = std::make_shared<InfoOptions>();
  CLI::App* command = app.add_subcommand("info", "Show format, layout, step, counts and metadata");
  add_source(*command, options->source);
  auto* json =
      command->add_flag("--json", options->json, "Print one JSON object (docs/reference/json.md)");
  auto* steps = command->add_flag("--steps", options->steps,
                                  "Print only the numbers of all steps, one per line");
  command->add_flag("--items", options->items, "Print only the names of the items, one per line")
      ->excludes(steps)
      ->excludes(json);
  steps->excludes(json);
  command->footer(
      "Examples:\n"
      "  cairn info run/checkpoints            the latest complete step\n"
      "  cairn info run/checkpoints --step 12  another one\n"
      "  cairn info run/checkpoints --steps    the numbers of all steps");
  command->callback([options, &status] {
    if (options->steps) return show_steps(options->source);
    const auto checkpoint = open_source(options->source);
    if (options->json)
      out().show_strict_json(info_json(*checkpoint));
    else if (options->items)
      for (const auto& item : checkpoint->info().items) out().show(printable_text(item) + "\n");
    else
      out().show(info_text(*checkpoint));
    status = status_of(*checkpoint);
  });
}

}  // namespace cairn::cli
