// tree.cc -- cairn tree: draws the pytree.
#include "commands.h"
#include "screen/terminal.h"
#include "source.h"

namespace cairn::cli {
namespace {

struct TreeOptions {
  Source source;
  bool sharding = false;
};

}  // namespace

void setup_tree(CLI::App& app, int& status) {
  const auto options = std::make_shared<TreeOptions>();
  CLI::App* command = app.add_subcommand("tree", "Draw the pytree");
  add_source(*command, options->source);
  command->add_flag("--sharding", options->sharding,
                    "Also show how each array was sharded, and which device held which\npart");
  command->footer(
      "Examples:\n"
      "  cairn tree --color=always ckpt | less -R\n"
      "  cairn tree --sharding ckpt");
  command->callback([options, &status] {
    const auto checkpoint = open_source(options->source);
    const Paint paint = stdout_style().reset.empty() ? Paint::kPlain : Paint::kAnsi;
    out().show(render_tree(*checkpoint, paint,
                           options->sharding ? TreeNotes::kShardings : TreeNotes::kNone));
    status = status_of(*checkpoint);
    const auto objects = try_call([&] { return checkpoint->objects(); });
    if (status != kGood || objects.ok()) return;
    out().flush();
    print_error(objects.error().message());
    status = kFailure;
  });
}

}  // namespace cairn::cli
