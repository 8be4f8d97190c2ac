// tree.cc -- cairn tree: the pytree, drawn.
#include "commands.h"
#include "source.h"
#include "terminal.h"

namespace cairn::cli {

void setup_tree(CLI::App& app, int& status) {
  const auto source = std::make_shared<Source>();
  CLI::App* command = app.add_subcommand("tree", "Draw the pytree");
  add_source(*command, *source);
  command->footer("Example:\n  cairn tree ckpt | less -R");
  command->callback([source, &status] {
    const auto checkpoint = open_source(*source);
    out().write(draw_tree(*checkpoint, stdout_style().reset.empty() ? Paint::kPlain : Paint::kAnsi));
    status = status_of(*checkpoint);
  });
}

}  // namespace cairn::cli
