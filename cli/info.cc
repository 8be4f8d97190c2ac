// info.cc -- cairn info: what a checkpoint is.
#include "commands.h"
#include "source.h"
#include "terminal.h"
#include "text.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

namespace cairn::cli {
namespace {

struct InfoOptions {
  Source source;
  bool json = false;
};

using Rows = std::vector<std::pair<std::string, std::string>>;

void add_counts(const Checkpoint& checkpoint, Rows& rows) {
  std::uint64_t strings = 0;
  std::uint64_t empty = 0;
  std::uint64_t elements = 0;
  std::uint64_t nbytes = 0;
  std::uint64_t stored = 0;
  std::uint64_t arrays = 0;
  std::uint64_t unreadable = 0;
  std::map<std::string, std::uint64_t> dtypes;
  for (const auto& t : checkpoint.tensors()) {
    nbytes += t.nbytes;
    stored += t.stored_nbytes;
    if (!t.error.empty()) {
      ++unreadable;
      continue;
    }
    if (!t.is_array()) {
      ++(t.dtype_name.empty() ? empty : strings);
      continue;
    }
    ++arrays;
    ++dtypes[t.dtype_name];
    elements += static_cast<std::uint64_t>(element_count(t.shape));
  }
  std::string leaves = plural(arrays, "array");
  if (strings > 0) leaves += ", " + plural(strings, "string");
  if (empty > 0) leaves += ", " + plural(empty, "empty node");
  if (unreadable > 0) leaves += ", " + plural(unreadable, "unreadable array");
  rows.emplace_back("leaves", leaves);
  rows.emplace_back("elements", count_text(elements));
  rows.emplace_back("size", bytes_text(nbytes) + " in memory, " + bytes_text(stored) + " stored");
  std::string types;
  for (const auto& [name, count] : dtypes) types += fmt::format("{}{} {}", types.empty() ? "" : ", ", name, count_text(count));
  if (!types.empty()) rows.emplace_back("dtypes", types);
}

std::string info_text(const Checkpoint& checkpoint) {
  const CheckpointInfo& info = checkpoint.info();
  Rows rows{{"path", info.path}, {"format", info.format}, {"layout", info.layout}};
  if (info.step) rows.emplace_back("step", std::to_string(*info.step));
  std::string items;
  for (const auto& item : info.items) items.append(items.empty() ? "" : ", ").append(item);
  if (!items.empty()) rows.emplace_back("items", items);
  add_counts(checkpoint, rows);
  const auto said = [&](const std::string& label) {
    return std::any_of(rows.begin(), rows.end(), [&](const auto& r) { return r.first == label; });
  };
  for (const auto& fact : info.facts)
    if (!said(fact.first)) rows.push_back(fact);
  if (!info.custom_metadata.empty()) rows.emplace_back("custom metadata", info.custom_metadata);
  std::size_t width = 0;
  for (const auto& row : rows) width = std::max(width, display_width(row.first));
  const Style& style = stdout_style();
  std::string text;
  for (const auto& [label, value] : rows)
    text += fmt::format("{}{}{}{}  {}\n", style.dim, printable(label), style.reset, std::string(width - display_width(label), ' '),
                        printable(value));
  return text;
}

}  // namespace

void setup_info(CLI::App& app, int& status) {
  const auto options = std::make_shared<InfoOptions>();
  CLI::App* command = app.add_subcommand("info", "Show format, layout, step, counts and metadata");
  add_source(*command, options->source);
  command->add_flag("--json", options->json, "One object for programs (docs/cli.md)");
  command->footer(
      "Examples:\n"
      "  cairn info run/checkpoints            the latest complete step\n"
      "  cairn info run/checkpoints --step 12  another one");
  command->callback([options, &status] {
    const auto checkpoint = open_source(options->source);
    out().write(options->json ? info_json(*checkpoint) : info_text(*checkpoint));
    status = status_of(*checkpoint);
  });
}

}  // namespace cairn::cli
