// repair.cc -- cairn repair: writes what is left of a damaged checkpoint as a new one.
#include "arguments/convert_target.h"
#include "arguments/stores.h"
#include "commands.h"
#include "screen/terminal.h"
#include "screen/text.h"
#include "source.h"

#include <fmt/format.h>

#include <chrono>
#include <memory>
#include <optional>

namespace cairn::cli {
namespace {

using State = RecoveredLeaf::State;

struct RepairArguments {
  Source source;
  std::vector<std::string> from;
  std::optional<std::string> fill;
  ConvertTargetArguments target;
};

constexpr std::size_t kBoxesShown = 5;

RecoverOptions recover_options(const RepairArguments& arguments) {
  RecoverOptions options{.open = arguments.source.options, .from = arguments.from};
  if (!arguments.fill) return options;
  if (*arguments.fill == "nan") {
    options.lost_elements = LostElements::kNan;
  } else if (*arguments.fill == "zero") {
    options.lost_elements = LostElements::kZero;
  } else {
    options.lost_elements = LostElements::kCheckpoint;
    options.fill_from = *arguments.fill;
  }
  return options;
}

// "[0:8, 4:6] and 3 more boxes"
std::string boxes_text(const std::vector<Box>& boxes) {
  std::string text;
  for (std::size_t i = 0; i < boxes.size() && i < kBoxesShown; ++i) {
    text += i == 0 ? "[" : ", [";
    for (std::size_t d = 0; d < boxes[i].rank(); ++d)
      text += fmt::format("{}{}:{}", d == 0 ? "" : ", ", boxes[i].origin[d],
                          boxes[i].origin[d] + boxes[i].shape[d]);
    text += "]";
  }
  if (boxes.size() > kBoxesShown)
    text += fmt::format(" and {} more boxes", boxes.size() - kBoxesShown);
  return text;
}

std::string lost_text(const RecoveredLeaf& leaf) {
  return leaf.lost.empty() ? leaf.why : boxes_text(leaf.lost) + " lost: " + leaf.why;
}

// Lines about the leaves, and about what is wrong beside them.
std::string recovered_text(const RecoverReport& report) {
  std::vector<std::pair<std::string, std::string>> copied, filled, lost;
  std::size_t unchecked = 0;
  for (const RecoveredLeaf& leaf : report.leaves) {
    unchecked += leaf.state == State::kWhole && !leaf.is_checked ? 1 : 0;
    if (leaf.state == State::kLost) lost.emplace_back(leaf.name, lost_text(leaf));
    if (leaf.state == State::kFilled) filled.emplace_back(leaf.name, lost_text(leaf));
    if (leaf.state == State::kWhole && !leaf.copy.empty())
      copied.emplace_back(leaf.name, leaf.copy);
  }
  std::string text;
  if (report.step)
    text += fmt::format("step     {}: {}\n", *report.step, printable_text(report.path));
  for (const std::string& note : report.notes) text += "note     " + printable_text(note) + "\n";
  text += list_text("from    ", copied, "--") + list_text("filled  ", filled, "--") +
          list_text("lost    ", lost, "--");
  text += fmt::format("whole    {} of {} {}\n", report.count(State::kWhole), report.leaves.size(),
                      report.leaves.size() == 1 ? "leaf" : "leaves");
  if (report.lacks_names) text += "         others may be lost with their names; see the notes\n";
  if (unchecked > 0)
    text += fmt::format("         not checked: no checksums for {} of them\n", unchecked);
  return text;
}

Recovered recover_source(const RepairArguments& arguments) {
  RecoverOptions options = recover_options(arguments);
  ProgressBar bar("checking");
  options.progress = [&](std::uint64_t done, std::uint64_t total) { bar.update(done, total); };
  try {
    return recover(arguments.source.path, options);
  } catch (const Error& e) {
    if (e.code() == Code::kInvalidArgument) throw;
    throw Failure(e.message());
  }
}

void check_paths(const RepairArguments& arguments) {
  const StoreOptions& store = arguments.target.options.store;
  check_one_server(arguments.source.path, arguments.target.path, store);
  for (const std::string& path : arguments.from)
    check_one_server(path, arguments.target.path, store);
}

int run_repair(RepairArguments& arguments) {
  const auto start = std::chrono::steady_clock::now();
  finish_options(arguments.source);
  finish_convert_target(arguments.target, arguments.source);
  check_paths(arguments);
  ConvertOptions& convert = arguments.target.options;
  convert.resources.memory = memory_shares(arguments.source).writing;
  Recovered recovered = recover_source(arguments);
  RepairReport report;
  {
    ProgressBar bar("writing");
    convert.progress = [&](std::uint64_t done, std::uint64_t total) { bar.update(done, total); };
    report.written = write_recovered(recovered, arguments.target.path, convert);
  }
  report.recovered = std::move(recovered.report);
  print_left_out(report.written);
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (arguments.target.json)
    out().show_json(repair_json(report));
  else if (convert.dry_run)
    out().show(recovered_text(report.recovered) +
               fmt::format("would write {}, {}\n", plural(report.written.tensors, "tensor"),
                           bytes_text(report.written.bytes)));
  else
    out().show(recovered_text(report.recovered) + report_text(report.written, seconds));
  const bool is_all = report.recovered.count(State::kLost) == 0 && recovered.lost_items.empty() &&
                      !report.recovered.lacks_names;
  return is_all ? kGood : kNo;
}

}  // namespace

void setup_repair(CLI::App& app, int& status) {
  const auto arguments = std::make_shared<RepairArguments>();
  CLI::App* command =
      app.add_subcommand("repair", "Write the intact leaves of a damaged checkpoint");
  add_source(*command, arguments->source, "SRC");
  check_path(command->add_option("DST", arguments->target.path, kTargetHelp))->required();
  check_path(
      command->add_option("--from", arguments->from,
                          "If SRC has no intact copy of a leaf, take it from this checkpoint, for "
                          "example an older step; may be repeated, best first"))
      ->type_name("CKPT")
      ->allow_extra_args(false);
  check_not_empty(
      command->add_option("--fill", arguments->fill,
                          "Keep arrays that are partly lost, and set the lost elements to nan, to "
                          "zero, or to the elements of the checkpoint at PATH (./nan for a path "
                          "named nan); default: leave these arrays out"))
      ->type_name("nan|zero|PATH");
  add_target_selection(*command, arguments->target);
  add_target_options(*command, arguments->target);
  command->footer(
      "Checks every byte of SRC and recovers each leaf of which it finds an intact copy. It\n"
      "searches SRC as it is, older generations of its databases, the databases of the\n"
      "processes that wrote it, and files whose index, directory or end is damaged. It never\n"
      "writes a value that a checksum or the structure shows as damaged. If a format has no\n"
      "checksums, the report says so. docs/guides/repair.md lists what Cairn can recover from\n"
      "each format.\n"
      "\n"
      "SRC does not change. DST appears whole or not at all. Its extension decides its format;\n"
      "otherwise it has the format of SRC.\n"
      "\n"
      "Exit status: 0 DST has all leaves; 1 some leaves are lost, and listed; 2 wrong usage; 3\n"
      "nothing can be recovered, or DST cannot be written.\n"
      "\n"
      "Examples:\n"
      "  cairn repair broken.safetensors whole.safetensors\n"
      "  cairn repair run/12 repaired --from run/11 --from run/10\n"
      "  cairn repair ckpt repaired --fill nan --json > lost.json\n"
      "  cairn repair model_folder repaired");
  command->callback([arguments, &status] { status = run_repair(*arguments); });
}

}  // namespace cairn::cli
