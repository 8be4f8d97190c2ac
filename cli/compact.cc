// compact.cc -- cairn compact: rewrites a database into as few files as it needs.
#include "arguments/stores.h"
#include "commands.h"
#include "screen/terminal.h"
#include "screen/text.h"
#include "source.h"

#include <fmt/format.h>

namespace cairn::cli {
namespace {

struct CompactArguments {
  std::string path;
  CompactOptions options;
  bool json = false;
};

void run_compact(CompactArguments& options) {
  std::vector<CompactedDatabase> done;
  try {
    ProgressBar bar("compacting");
    options.options.progress = [&](std::uint64_t bytes, std::uint64_t total) {
      bar.update(bytes, total);
    };
    done = compact_databases(options.path, options.options);
  } catch (const Error& e) {
    throw Failure(e.message());
  }
  if (options.json) {
    out().show_json(compact_json(done));
    return;
  }
  for (const auto& d : done)
    out().show(fmt::format("{}: {} in {} ({}), before {} ({})\n", printable_text(d.path),
                           plural(d.keys, "key"), plural(d.files_after, "file"),
                           bytes_text(d.bytes_after), plural(d.files_before, "file"),
                           bytes_text(d.bytes_before)));
}

}  // namespace

void setup_compact(CLI::App& app, int& status) {
  const auto options = std::make_shared<CompactArguments>();
  CLI::App* command =
      app.add_subcommand("compact", "Rewrite a checkpoint's database into few files");
  auto* path =
      command->add_option("CKPT", options->path,
                          "An Orbax checkpoint, a step root, or an OCDBT database: a path\n"
                          "or a URL (s3://, gs://)");
  check_path(path)->required();
  check_int64(command->add_option("--step", options->options.step,
                                  "Step of a step root (default: the latest)"));
  command->add_option("--item", options->options.item,
                      "Item of a composite checkpoint (default: all of them)");
  command->add_flag("--orphans", options->options.remove_orphans,
                    "Also remove data files that no version refers to; safe only while\nno program "
                    "writes to the checkpoint");
  command->add_flag("--json", options->json, "Print a JSON list (docs/reference/json.md)");
  add_store_options(*command, options->options.store);
  command->footer(
      "Keeps the newest version and drops the older ones. A process that is reading an older\n"
      "version may then fail. If the command is killed, the database is in its old or in its\n"
      "new state. Cairn does not compact a damaged database. In a store, compact only while\n"
      "nobody saves to the same place.\n"
      "\n"
      "Example:\n"
      "  cairn compact ckpt --orphans");
  command->callback([options, &status] {
    run_compact(*options);
    status = kGood;
  });
}

}  // namespace cairn::cli
