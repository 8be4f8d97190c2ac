// clean.cc -- cairn clean: what crashes have left.
#include "commands.h"
#include "source.h"
#include "terminal.h"
#include "text.h"

#include <fmt/format.h>

namespace cairn::cli {
namespace {

struct CleanOptions {
  std::string path;
  bool dry_run = false;
  bool json = false;
};

void run_clean(const CleanOptions& options) {
  const auto cleaned = clean(options.path, options.dry_run ? CleanMode::kShow : CleanMode::kRemove);
  if (options.json) {
    out().write(clean_json(cleaned));
    return;
  }
  std::uint64_t bytes = 0;
  for (const auto& c : cleaned) {
    const char* what = c.restored ? (options.dry_run ? "would come back" : "came back") : (options.dry_run ? "would go" : "removed");
    out().write(fmt::format("{:<9} {} ({})\n", what, printable(c.path), bytes_text(c.bytes)));
    if (!c.restored) bytes += c.bytes;
  }
  out().write(cleaned.empty() ? "nothing to clean\n"
                              : fmt::format("{}, {} {}\n", plural(cleaned.size(), "leftover"), bytes_text(bytes),
                                            options.dry_run ? "to be freed" : "freed"));
}

}  // namespace

void setup_clean(CLI::App& app, int& status) {
  const auto options = std::make_shared<CleanOptions>();
  CLI::App* command = app.add_subcommand("clean", "Remove what interrupted saves have left behind");
  command->add_option("DIR", options->path, "A folder of checkpoints, a step root, or the path of one checkpoint")->required();
  command->add_flag("--dry-run", options->dry_run, "Only show what would be removed");
  command->add_flag("--json", options->json, "A list for programs (docs/cli.md)");
  command->footer(
      "Removes temporary folders (NAME.orbax-checkpoint-tmp) and files of saves that were killed, Orbax's as well as Cairn's.\n"
      "A checkpoint that was set aside while it was being replaced comes back. Finished checkpoints are never touched.\n"
      "Only if nobody is saving there: a save that is under way looks the same.\n\n"
      "Example:\n"
      "  cairn clean checkpoints --dry-run");
  command->callback([options, &status] {
    run_clean(*options);
    status = kGood;
  });
}

}  // namespace cairn::cli
