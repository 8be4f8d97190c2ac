// clean.cc -- cairn clean: removes the leftovers of crashes.
#include "arguments/stores.h"
#include "commands.h"
#include "screen/terminal.h"
#include "screen/text.h"
#include "source.h"

#include <fmt/format.h>

#include <algorithm>

namespace cairn::cli {
namespace {

struct CleanOptions {
  std::string path;
  bool dry_run = false;
  bool json = false;
  StoreOptions store;
};

const char* outcome_text(CleanOutcome outcome, bool dry_run) {
  switch (outcome) {
    case CleanOutcome::kRemoved:
      return dry_run ? "would remove" : "removed";
    case CleanOutcome::kRestored:
      return dry_run ? "would restore" : "restored";
    case CleanOutcome::kInUse:
      return "in use";
    case CleanOutcome::kRefused:
      break;
  }
  return "refused";
}

void show(const std::vector<CleanedPath>& cleaned, const CleanOptions& options) {
  if (options.json) {
    out().show_json(clean_json(cleaned));
    return;
  }
  std::uint64_t bytes = 0, gone = 0;
  for (const auto& c : cleaned) {
    const bool goes = c.outcome == CleanOutcome::kRemoved;
    out().show(fmt::format("{:<{}} {} ({}){}\n", outcome_text(c.outcome, options.dry_run),
                           options.dry_run ? 13 : 9, printable_text(c.path), bytes_text(c.bytes),
                           c.why.empty() ? "" : ": " + printable_text(c.why)));
    if (goes) bytes += c.bytes;
    if (goes || c.outcome == CleanOutcome::kRestored) ++gone;
  }
  if (cleaned.empty()) out().show("nothing to clean\n");
  if (gone > 0)
    out().show(fmt::format("{}, {} {}\n", plural(gone, "leftover"), bytes_text(bytes),
                           options.dry_run ? "to be freed" : "freed"));
}

}  // namespace

void setup_clean(CLI::App& app, int& status) {
  const auto options = std::make_shared<CleanOptions>();
  CLI::App* command = app.add_subcommand("clean", "Remove the leftovers of interrupted saves");
  check_path(command->add_option(
                 "DIR", options->path,
                 "A folder of checkpoints, a step root, or the path of one checkpoint; or a URL"))
      ->required();
  command->add_flag("--dry-run", options->dry_run, "Show what would be removed; remove nothing");
  command->add_flag("--json", options->json, "Print a JSON list (docs/reference/json.md)");
  add_store_options(*command, options->store);
  command->footer(
      "Removes temporary folders (NAME.orbax-checkpoint-tmp) and files of killed saves, both\n"
      "Orbax's and Cairn's. Also removes folders whose save in place never ended (no\n"
      "commit_success.txt). In a finished checkpoint, it removes only the files that a killed\n"
      "deletion of an item has left (.orbax-delete-*).\n"
      "\n"
      "  restored     It was complete, and Cairn gave it its final name.\n"
      "  refused      The folder also holds other files. Exit status 3.\n"
      "  in use       A save or a deletion of Cairn is in progress.\n"
      "\n"
      "Cairn cannot distinguish a running save or deletion of Orbax from a leftover. In a store\n"
      "(s3://, gs://) it cannot distinguish any running save from a leftover: clean a store\n"
      "only while nobody saves there. In a store it removes checkpoints without their\n"
      "commit_success.txt, at the URL or directly below it. On S3 it also discards uploads that\n"
      "never ended.\n"
      "\n"
      "Example:\n"
      "  cairn clean checkpoints --dry-run");
  command->callback([options, &status] {
    const auto cleaned = clean_leftovers(
        options->path, {.mode = options->dry_run ? CleanMode::kShow : CleanMode::kRemove,
                        .store = options->store});
    show(cleaned, *options);
    const auto refused = [](const CleanedPath& c) { return c.outcome == CleanOutcome::kRefused; };
    status = std::any_of(cleaned.begin(), cleaned.end(), refused) ? kFailure : kGood;
  });
}

}  // namespace cairn::cli
