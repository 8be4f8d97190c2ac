// diff.cc -- cairn diff: prints the differences between two checkpoints.
#include "arguments/choices.h"
#include "commands.h"
#include "ranks.h"
#include "screen/diff_text.h"
#include "screen/terminal.h"
#include "screen/text.h"
#include "source.h"

#include <fmt/format.h>

#include <algorithm>

namespace cairn::cli {
namespace {

struct DiffArguments {
  Source a;
  std::string b;
  std::optional<std::int64_t> step_b;
  std::optional<std::string> item_b;
  std::string glob;
  bool json = false, summary = false;
  std::string sort;
  std::optional<std::uint64_t> limit;
  DiffOptions options;
};

Source source_of_b(const DiffArguments& arguments) {
  Source b = arguments.a;
  b.path = arguments.b;
  if (arguments.step_b) b.options.step = arguments.step_b;
  if (arguments.item_b) b.options.item = arguments.item_b;
  return b;
}

std::uint64_t count(const DiffReport& report) {
  return report.same + report.different + report.only_in_a + report.only_in_b + report.unreadable;
}

// "2 leaves cannot be read, the first: params.w: in A: chunk 0.0: ..."
std::string unreadable_text(const DiffReport& report) {
  const auto first =
      std::find_if(report.leaves.begin(), report.leaves.end(),
                   [](const LeafDiff& leaf) { return leaf.state == LeafState::kUnreadable; });
  std::string text = plural(report.unreadable, "leaf") + " cannot be read";
  if (first == report.leaves.end()) return text;
  const bool in_a = !first->a.error.empty();
  return text + ", the first: " + full_name(*first) + ": in " +
         (in_a ? "A: " + first->a.error : "B: " + first->b.error);
}

int diff_status(const DiffReport& report) {
  if (report.unreadable > 0) return kFailure;
  return report.equal() ? kGood : kNo;
}

int run_diff(DiffArguments& arguments, int& status) {
  DiffOptions& options = arguments.options;
  if (!arguments.glob.empty()) options.include.push_back(arguments.glob);
  Source source_b = source_of_b(arguments);
  // Without the option, diff() refuses them.
  const auto missing =
      arguments.a.options.allow_missing ? MissingParts::kName : MissingParts::kLeave;
  const auto a = open_source(arguments.a, missing);
  const auto b = open_source(source_b, missing);
  options.resources = {.threads = arguments.a.options.resources.threads,
                       .memory = buffer_memory(arguments.a)};
  options.multiprocessing = job();
  options.measures = !screen_settings().quiet;
  DiffReport report;
  {
    ProgressBar bar("comparing");
    options.progress = [&](std::uint64_t done, std::uint64_t total) { bar.update(done, total); };
    report = diff(*a, *b, options);
  }
  status = diff_status(report);  // set before printing, because a closed pipe may end it
  const bool excludes_all =
      !options.exclude.empty() && a->tensors().size() + b->tensors().size() > 0;
  const bool nothing_matches = (!options.include.empty() || excludes_all) && count(report) == 0;
  if (nothing_matches) status = kNo;
  const std::string unreadable = report.unreadable > 0 ? unreadable_text(report) : "";
  sort_diff(report, arguments.sort);
  if (arguments.json) {
    if (arguments.limit && *arguments.limit < report.leaves.size())
      report.leaves.resize(static_cast<std::size_t>(*arguments.limit));
    out().show_json(diff_json(report));
  } else if (!nothing_matches) {
    const auto limit = arguments.limit.value_or(report.leaves.size());
    out().show((arguments.summary ? worst_text(report) : leaves_text(report, limit)) +
               notes_text(report) + counts_text(report));
  }
  if (nothing_matches || report.unreadable > 0) out().flush();
  if (nothing_matches) print_error("no tensor of either matches: nothing was compared");
  if (report.unreadable > 0) print_error(unreadable);
  return status;
}

}  // namespace

void setup_diff(CLI::App& app, int& status) {
  const auto arguments = std::make_shared<DiffArguments>();
  DiffOptions& options = arguments->options;
  CLI::App* command =
      app.add_subcommand("diff", "Compare two checkpoints: structure, types and values");
  add_source(*command, arguments->a, "A");
  add_dequantize(*command, arguments->a);
  check_path(command->add_option("B", arguments->b, "The other checkpoint, of any format"))
      ->required();
  command->add_option("GLOB", arguments->glob, "Only names that match");
  check_int64(
      command->add_option("--step-b", arguments->step_b, "Step of B, if it differs from --step"))
      ->type_name("N");
  command->add_option("--item-b", arguments->item_b, "Item of B, if it differs from --item")
      ->type_name("NAME");
  command->add_option("--include", options.include, "Only names that match; may be repeated")
      ->type_name("GLOB")
      ->allow_extra_args(false);
  add_exclude(*command, options.exclude);
  check_not_empty(command
                      ->add_option("--rtol", options.rtol,
                                   "Relative tolerance: |a - b| <= atol + rtol * |b| is equal")
                      ->type_name("X"));
  check_not_empty(command
                      ->add_option("--atol", options.atol,
                                   "Absolute tolerance (default of both: 0, the same bits)")
                      ->type_name("X"));
  command->add_flag("--ignore-dtype", options.ignore_dtype,
                    "Compare values of different types as numbers");
  command->add_flag("--strict", options.strict,
                    "Treat a different kind (np.ndarray, jax.Array) as a difference");
  check_choice(command->add_option("--sort", arguments->sort,
                                   "name, or the worst first by different, max-abs, rms, relative\n"
                                   "or cosine (default: the order of A)"),
               {"name", "different", "max-abs", "rms", "relative", "cosine"})
      ->type_name("BY");
  check_uint64(
      command->add_option("--limit", arguments->limit, "Show at most N leaves that differ"))
      ->type_name("N");
  command->add_flag("--summary", arguments->summary, "Show only the largest errors and the counts");
  command->add_flag("--json", arguments->json, "Print one JSON object (docs/reference/json.md)");
  command->footer(
      "Compares leaves of the same name. A and B may have different formats. Without a\n"
      "tolerance, values must have the same bits: 0.0 and -0.0 differ, and NaN equals only the\n"
      "same NaN. With a tolerance, NaN equals NaN. Between two steps of Orbax, JSON and\n"
      "protocol buffer items are compared, too.\n"
      "\n"
      "Measures cover all pairs of finite numbers: max abs is the largest |a - b|, RMS the root\n"
      "of the mean of |a - b|^2, relative is max abs / the largest |b|, and cosine is the\n"
      "cosine of the angle between the two arrays as vectors (1: the same direction). Leaves in\n"
      "which a NaN or an infinity differs come first in every order.\n"
      "\n"
      "Exit status 1: something differs. 3: something could not be read; the rest is still\n"
      "compared.\n"
      "\n"
      "Under an MPI launcher (mpirun -n 8 cairn diff ...) the processes share the bytes. Each\n"
      "process uses --memory.\n"
      "\n"
      "Examples:\n"
      "  cairn diff ckpt model.safetensors\n"
      "  cairn diff run/checkpoints run/checkpoints --step 100 --step-b 200 'params.*'\n"
      "  cairn diff old new --sort relative --limit 20\n"
      "  cairn diff ckpt half.safetensors --ignore-dtype --rtol 0.01\n"
      "  cairn diff a b --json | jq -r '.leaves[] | select(.state == \"different\") | .name'");
  command->callback([arguments, &status] { status = run_diff(*arguments, status); });
}

}  // namespace cairn::cli
