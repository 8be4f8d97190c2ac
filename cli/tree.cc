// tree.cc -- cairn tree: draws the pytree.
#include "commands.h"
#include "screen/terminal.h"
#include "source.h"

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace cairn::cli {
namespace {

struct TreeOptions {
  Source source;
  std::string glob;
  std::vector<std::string> exclude;
  std::optional<std::uint64_t> depth;
  bool sharding = false, all = false, json = false;
};

int run_tree(TreeOptions& options) {
  const auto checkpoint = open_source(options.source);
  TreeStyle style{.paint = stdout_style().reset.empty() ? Paint::kPlain : Paint::kAnsi,
                  .notes = options.sharding ? TreeNotes::kShardings : TreeNotes::kNone,
                  .collapse = !options.all,
                  .width = terminal_width()};
  if (options.depth) style.depth = static_cast<std::size_t>(*options.depth);
  std::vector<std::string> include;
  if (!options.glob.empty()) include.push_back(options.glob);
  auto indices = select_tensors(*checkpoint, include, options.exclude);
  const int selected = selected_status(*checkpoint, indices, options.glob, options.exclude);
  if (selected == kNo) return kNo;
  if (!include.empty() || !options.exclude.empty()) style.leaves = std::move(indices);
  if (options.json) {
    out().show_json(tree_json(*checkpoint, style));
    return selected;
  }
  out().show(render_tree(*checkpoint, style));
  const auto objects = try_call([&] { return checkpoint->objects(); });
  if (selected != kGood || objects.ok()) return selected;
  out().flush();
  print_error(objects.error().message());
  return kFailure;
}

}  // namespace

void setup_tree(CLI::App& app, int& status) {
  const auto options = std::make_shared<TreeOptions>();
  CLI::App* command = app.add_subcommand("tree", "Draw the pytree");
  add_source(*command, options->source);
  command->add_option("GLOB", options->glob, "Only names that match");
  check_uint64(command->add_option("--depth", options->depth,
                                   "Levels to show; deeper leaves are only counted (default: all)"))
      ->type_name("N");
  add_exclude(*command, options->exclude);
  command->add_flag(
      "--all", options->all,
      "Show each sibling; by default, four or more that differ only in numbers share a line");
  auto* sharding =
      command->add_flag("--sharding", options->sharding,
                        "Also show how each array was sharded, and which device held which\npart");
  command->add_flag("--json", options->json, "Print one JSON object (docs/reference/json.md)")
      ->excludes(sharding);
  command->footer(
      "Equal layers share one line with their numbers: [0-31]. For --depth, the parts of a flat\n"
      "name between '.' or '/' are levels.\n"
      "\n"
      "Examples:\n"
      "  cairn tree ckpt 'params.*' --depth 3\n"
      "  cairn tree --color=always ckpt | less -R\n"
      "  cairn tree --sharding ckpt");
  command->callback([options, &status] { status = run_tree(*options); });
}

}  // namespace cairn::cli
