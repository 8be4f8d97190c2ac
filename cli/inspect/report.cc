// report.cc -- cairn report: writes a page that shows a checkpoint in a browser.
#include "arguments/stores.h"
#include "commands.h"
#include "screen/terminal.h"
#include "screen/text.h"
#include "source.h"

#include <fmt/format.h>

namespace cairn::cli {
namespace {

struct ReportArguments {
  Source source;
  std::string b;
  std::optional<std::int64_t> step_b;
  std::optional<std::string> item_b;
  std::string page;
  std::optional<std::uint64_t> steps;
  bool no_values = false, no_verify = false, json = false;
  HtmlReportOptions options;
};

// The worst that the page shows decides.
int page_status(const Checkpoint& checkpoint, const HtmlReport& report) {
  const Verdict verdict = report.verified ? report.verified->verdict() : Verdict::kGood;
  if (verdict == Verdict::kDamaged) return kNo;
  if (verdict == Verdict::kNotChecked || report.unreadable > 0) return kFailure;
  return missing_status(checkpoint);
}

std::string page_summary(const HtmlReport& report, const std::string& path) {
  std::string text =
      fmt::format("wrote    {}\n", fold_text(printable_text(path), 9)) +
      fmt::format("done     {}, {}", plural(report.tensors, "tensor"), bytes_text(report.bytes));
  if (report.different) text += fmt::format(", {} different", plural(*report.different, "leaf"));
  text += "\n";
  if (report.unlisted > 0)
    text += fmt::format("note     {} smaller tensors are only in the sums; --include selects\n",
                        count_text(report.unlisted));
  if (report.verified && report.verified->damaged())
    text += "bad      the checkpoint is damaged; the page names the places\n";
  else if (report.verified && report.verified->verdict() == Verdict::kNotChecked)
    text += "unknown  not everything could be checked; the page names the places\n";
  if (report.unreadable > 0)
    text += fmt::format("bad      the values of {} cannot be read; the page says why\n",
                        plural(report.unreadable, "tensor"));
  return text;
}

void check_report_arguments(const ReportArguments& arguments) {
  check_one_server(arguments.source.path, arguments.page, arguments.source.options.store);
  if (arguments.b.empty() && (arguments.step_b || arguments.item_b))
    throw UsageError("--step-b and --item-b need a second checkpoint");
  if (arguments.steps && (*arguments.steps == 0 || *arguments.steps > 100))
    throw UsageError("--steps: expected 1 to 100");
}

int run_report(ReportArguments& arguments, int& status) {
  check_report_arguments(arguments);
  HtmlReportOptions& options = arguments.options;
  options.values = !arguments.no_values;
  options.verify = !arguments.no_verify;
  const auto checkpoint = open_source(arguments.source);
  if (!arguments.b.empty()) {
    Source b = arguments.source;
    b.path = arguments.b;
    if (arguments.step_b) b.options.step = arguments.step_b;
    if (arguments.item_b) b.options.item = arguments.item_b;
    options.other = open_source(b);
  }
  options.opened_path = arguments.source.path;
  options.steps = static_cast<std::size_t>(arguments.steps.value_or(0));
  options.open = arguments.source.options;
  options.store = arguments.source.options.store;
  options.resources = {.threads = arguments.source.options.resources.threads,
                       .memory = buffer_memory(arguments.source)};
  HtmlReport report;
  {
    ProgressBar bar("reading");
    options.progress = [&](std::uint64_t done, std::uint64_t total) { bar.update(done, total); };
    report = write_html_report(*checkpoint, arguments.page, options);
  }
  status = page_status(*checkpoint, report);  // set before printing: a closed pipe may end it
  if (arguments.json)
    out().show_json(html_report_json(report, arguments.page));
  else
    out().show(page_summary(report, arguments.page));
  return status;
}

}  // namespace

void setup_report(CLI::App& app, int& status) {
  const auto arguments = std::make_shared<ReportArguments>();
  HtmlReportOptions& options = arguments->options;
  CLI::App* command = app.add_subcommand("report", "Write a page that shows a checkpoint");
  add_source(*command, arguments->source);
  add_dequantize(*command, arguments->source);
  check_path(command->add_option("B", arguments->b,
                                 "Another checkpoint, of any format: show how CKPT differs"));
  check_path(command->add_option("-o,--output", arguments->page,
                                 "The page, one HTML file; also as a URL (s3://, gs://)"))
      ->type_name("FILE")
      ->required();
  check_int64(
      command->add_option("--step-b", arguments->step_b, "Step of B, if it differs from --step"))
      ->type_name("N");
  command->add_option("--item-b", arguments->item_b, "Item of B, if it differs from --item")
      ->type_name("NAME");
  check_uint64(command->add_option("--steps", arguments->steps,
                                   "Show statistics over the last N complete steps of CKPT, a "
                                   "directory of steps (1 to 100). Reads all of them"))
      ->type_name("N");
  command->add_flag("--no-values", arguments->no_values,
                    "Read no values: no statistics and no histograms");
  command->add_flag("--no-verify", arguments->no_verify, "Skip the checks of cairn verify");
  command->add_option("--include", options.include, "Only names that match; may be repeated")
      ->type_name("GLOB")
      ->allow_extra_args(false);
  add_exclude(*command, options.exclude);
  command->add_flag_callback(
      "--force,--replace", [&options] { options.if_exists = IfExists::kReplace; },
      "Replace an existing file");
  command->add_flag("--json", arguments->json, "Print one JSON object (docs/reference/json.md)");
  command->footer(
      "The page shows the bytes by module, each tensor with its statistics, histogram, chunks\n"
      "and shards, damage, differences, and curves over steps. It is one file and loads nothing\n"
      "from the network. With --no-values --no-verify, Cairn reads only metadata.\n"
      "\n"
      "Exit status 1: the checkpoint is damaged. 3: something could not be read or checked. In\n"
      "both cases Cairn writes the page, and the page names the problem.\n"
      "\n"
      "Examples:\n"
      "  cairn report ckpt -o page.html\n"
      "  cairn report old.safetensors new.safetensors -o changes.html\n"
      "  cairn report run/checkpoints --steps 20 --include 'params.*' -o run.html\n"
      "  cairn report huge --no-values --no-verify -o overview.html");
  command->callback([arguments, &status] { status = run_report(*arguments, status); });
}

}  // namespace cairn::cli
