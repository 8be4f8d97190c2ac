// prune.cc -- cairn prune: removes the steps that are no longer wanted.
#include "arguments/choices.h"
#include "arguments/options.h"
#include "arguments/stores.h"
#include "commands.h"
#include "screen/terminal.h"
#include "screen/text.h"
#include "source.h"

#include <cairn/steps.h>

#include <fmt/format.h>

#include <algorithm>

namespace cairn::cli {
namespace {

struct PruneArguments {
  std::string path;
  PruneOptions options;
  std::string best_mode = "max";
  bool json = false;
};

const char* outcome_text(PruneOutcome outcome, bool dry_run) {
  switch (outcome) {
    case PruneOutcome::kKept:
      return "kept";
    case PruneOutcome::kRemoved:
      return dry_run ? "would remove" : "removed";
    case PruneOutcome::kRefused:
      break;
  }
  return "refused";
}

void show(const std::vector<PrunedStep>& steps, const PruneArguments& arguments) {
  if (arguments.json) {
    out().show_json(prune_json(steps));
    return;
  }
  const bool dry_run = arguments.options.dry_run;
  std::uint64_t bytes = 0, gone = 0;
  for (const PrunedStep& step : steps) {
    out().show(fmt::format("{:<{}} {} ({}){}\n", outcome_text(step.outcome, dry_run),
                           dry_run ? 12 : 9, step.step, bytes_text(step.nbytes),
                           step.why.empty() ? "" : ": " + printable_text(step.why)));
    if (step.outcome != PruneOutcome::kRemoved) continue;
    bytes += step.nbytes;
    ++gone;
  }
  out().show(fmt::format("{}, {} {}\n", plural(gone, "step"), bytes_text(bytes),
                         dry_run ? "to be freed" : "freed"));
}

int run_prune(PruneArguments& arguments) {
  PruneOptions& options = arguments.options;
  if (!options.keep_last && !options.keep_every && !options.best)
    throw UsageError("say which steps to keep: --keep-last, --keep-every or --best");
  if (options.keep_every) as_usage([&] { (void)keep_policy::every_n_steps(*options.keep_every); });
  options.best_mode = arguments.best_mode == "min" ? BestMode::kMin : BestMode::kMax;
  const auto steps = prune_steps(arguments.path, options);
  show(steps, arguments);
  const auto refused = [](const PrunedStep& s) { return s.outcome == PruneOutcome::kRefused; };
  return std::ranges::any_of(steps, refused) ? kFailure : kGood;
}

}  // namespace

void setup_prune(CLI::App& app, int& status) {
  const auto arguments = std::make_shared<PruneArguments>();
  PruneOptions& options = arguments->options;
  CLI::App* command = app.add_subcommand("prune", "Remove steps of a training run");
  check_path(command->add_option("DIR", arguments->path,
                                 "The directory or URL of a CheckpointManager, Orbax's or Cairn's"))
      ->required();
  check_uint64(command->add_option("--keep-last", options.keep_last, "Keep the last N steps"))
      ->type_name("N");
  check_uint64(command->add_option("--keep-every", options.keep_every,
                                   "Keep the steps that are multiples of K"))
      ->type_name("K");
  command->add_option("--best", options.best, "Keep the step with the best METRIC")
      ->type_name("METRIC");
  check_choice(command->add_option(
                   "--best-mode", arguments->best_mode,
                   "Which METRIC is best: max (the largest; the default) or min (the smallest)"),
               {"max", "min"})
      ->type_name("MODE");
  command->add_flag("--dry-run", options.dry_run, "Show what would be removed; remove nothing");
  command->add_flag("--json", arguments->json, "Print a JSON list (docs/reference/json.md)");
  add_store_options(*command, options.store);
  command->footer(
      "Keeps a step if any option keeps it, or if a symbolic link leads to it. Always keeps the\n"
      "newest complete step. Does not touch incomplete steps; cairn clean removes those of\n"
      "interrupted saves.\n"
      "\n"
      "  refused      The step's folder also holds other files. Exit status 3.\n"
      "\n"
      "Do not prune a directory while a training run saves to it, unless the policy of the run\n"
      "keeps more steps than your options.\n"
      "\n"
      "Examples:\n"
      "  cairn prune run/checkpoints --keep-last 3 --dry-run\n"
      "  cairn prune run/checkpoints --keep-last 2 --keep-every 10000 --best loss --best-mode min");
  command->callback([arguments, &status] { status = run_prune(*arguments); });
}

}  // namespace cairn::cli
