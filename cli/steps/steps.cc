// steps.cc -- cairn steps: lists the steps of a training run.
#include "arguments/stores.h"
#include "commands.h"
#include "screen/terminal.h"
#include "screen/text.h"
#include "source.h"

#include <cairn/steps.h>

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <iterator>
#include <thread>

namespace cairn::cli {
namespace {

struct StepsOptions {
  std::string path;
  bool watch = false;
  bool json = false;
  StoreOptions store;
};

std::string time_text(const std::optional<std::int64_t>& nanoseconds) {
  if (!nanoseconds) return "";
  const std::time_t seconds = *nanoseconds / 1'000'000'000;
  return fmt::format("{:%Y-%m-%d %H:%M:%S}", fmt::gmtime(seconds));
}

std::string metrics_text(const std::optional<Metrics>& metrics) {
  std::string text;
  if (metrics)
    for (const auto& [name, value] : *metrics)
      text += (text.empty() ? "" : ", ") + name + " " + fmt::format("{:.6g}", value);
  return text;
}

std::string items_text(const std::vector<std::string>& items) {
  return fmt::format("{}", fmt::join(items, ", "));
}

void show(const std::vector<StepRecord>& steps) {
  Table table({{"step", Align::kRight, stdout_style().cyan},
               {"committed (UTC)", Align::kLeft, {}},
               {"size", Align::kRight, {}},
               {"unique", Align::kRight, {}},
               {"metrics", Align::kLeft, {}},
               {"items", Align::kLeft, {}},
               {"not complete", Align::kLeft, stdout_style().red}});
  for (const StepRecord& record : steps)
    table.add({std::to_string(record.step), time_text(record.committed_at_ns),
               bytes_text(record.nbytes), bytes_text(record.unique_nbytes),
               metrics_text(record.metrics), items_text(record.items), record.reason});
  table.drop_empty();
  if (table.empty())
    out().show("no steps\n");
  else
    out().show(table.text(true));
}

bool is_new(const StepRecord& record, const std::vector<StepRecord>& before) {
  return std::ranges::none_of(before, [&](const StepRecord& old) {
    return old.path == record.path && old.complete == record.complete &&
           old.committed_at_ns == record.committed_at_ns;
  });
}

// Shows each step once more whenever it appears, is finished or is replaced. Ends with the program.
[[noreturn]] void watch(const StepsOptions& options, std::vector<StepRecord> before) {
  while (true) {
    std::this_thread::sleep_for(std::chrono::seconds(1));
    std::vector<StepRecord> now = read_steps(options.path, options.store);
    std::vector<StepRecord> fresh;
    std::ranges::copy_if(now, std::back_inserter(fresh),
                         [&](const StepRecord& record) { return is_new(record, before); });
    for (const StepRecord& old : before)
      if (std::ranges::none_of(now, [&](const StepRecord& r) { return r.path == old.path; }))
        out().show(fmt::format("step {} is gone\n", old.step));
    if (!fresh.empty()) show(fresh);
    out().flush();
    before = std::move(now);
  }
}

// Names the checkpoints that the list leaves out.
void note_unnamed(const std::vector<std::string>& names) {
  if (names.empty()) return;
  constexpr std::size_t kMostNames = 5;
  std::string text;
  for (std::size_t i = 0; i < std::min(names.size(), kMostNames); ++i)
    text += (i == 0 ? "" : ", ") + names[i];
  if (names.size() > kMostNames) text += fmt::format(" and {} more", names.size() - kMostNames);
  advise(fmt::format(
      "note: {} not listed, because {} not of the form 12 or step_12: {}",
      names.size() == 1 ? "one checkpoint is" : fmt::format("{} checkpoints are", names.size()),
      names.size() == 1 ? "its name is" : "their names are", text));
}

int run_steps(const StepsOptions& options) {
  const std::vector<StepRecord> steps = read_steps(options.path, options.store);
  note_unnamed(find_unnamed_steps(options.path, options.store));
  if (options.json) {
    out().show_strict_json(steps_json(steps));
    return kGood;
  }
  show(steps);
  out().flush();
  if (options.watch) watch(options, steps);
  return kGood;
}

}  // namespace

void setup_steps(CLI::App& app, int& status) {
  const auto options = std::make_shared<StepsOptions>();
  CLI::App* command = app.add_subcommand("steps", "List the steps of a training run");
  check_path(command->add_option(
                 "DIR", options->path,
                 "The directory of a CheckpointManager: Orbax's, Cairn's or\nTensorFlow's; or the "
                 "URL of one of Orbax's or Cairn's"))
      ->required();
  CLI::Option* json =
      command->add_flag("--json", options->json, "Print a JSON list (docs/reference/json.md)");
  command
      ->add_flag("--watch", options->watch, "Keep running and show each new step; Ctrl-C stops it")
      ->excludes(json);
  add_store_options(*command, options->store);
  command->footer(
      "Shows each step's time, size, metrics and items, and why a step is not complete.\n"
      "`unique` is the size of the files that no other step shares: removing the step frees it.\n"
      "Unfinished saves are listed, too. A step is not complete if a part that its records name\n"
      "is missing. Reads no arrays; cairn verify does.\n"
      "\n"
      "Examples:\n"
      "  cairn steps run/checkpoints\n"
      "  cairn steps run/checkpoints --json | jq '.[-1].metrics.loss'");
  command->callback([options, &status] { status = run_steps(*options); });
}

}  // namespace cairn::cli
