// verify.cc -- cairn verify: checks every byte of a checkpoint.
#include "commands.h"
#include "ranks.h"
#include "screen/terminal.h"
#include "screen/text.h"
#include "source.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <tuple>

namespace cairn::cli {
namespace {

struct VerifyArguments {
  Source source;
  std::vector<std::string> paths;
  bool json = false;
  bool list_unprotected = false;
  bool all_steps = false;
  bool strict = false;
};

constexpr std::size_t kNamesShown = 5;
constexpr std::size_t kIndent = 9;  // of what follows the first word of a line

// Identical findings about several tensors. A damaged manifest, for example, damages all its
// tensors.
struct Group {
  const Finding* finding;
  std::vector<std::string> tensors;
};

std::vector<Group> grouped(const VerifyReport& report, Severity severity) {
  std::vector<Group> groups;
  std::map<std::tuple<std::string_view, std::uint64_t, std::string_view>, std::size_t> places;
  for (const auto& f : report.findings) {
    if (f.severity != severity) continue;
    const auto [place, added] = places.try_emplace({f.file, f.offset, f.message}, groups.size());
    if (added) groups.push_back({&f, {}});
    if (!f.tensor.empty()) groups[place->second].tensors.push_back(f.tensor);
  }
  return groups;
}

std::string list_text(const std::vector<std::string>& names, std::string_view more) {
  std::string text;
  for (std::size_t i = 0; i < names.size() && i < kNamesShown; ++i)
    text.append(i > 0 ? ", " : "").append(printable_text(names[i]));
  if (names.size() > kNamesShown)
    text += fmt::format(" and {} more{}", names.size() - kNamesShown, more);
  return text;
}

std::string group_text(const Group& group) {
  const Style& style = stdout_style();
  const Finding& f = *group.finding;
  const bool damage = f.severity == Severity::kDamage;
  const std::string_view word = damage                                ? "DAMAGED"
                                : f.severity == Severity::kNotChecked ? "not checked"
                                                                      : "note   ";
  std::string text = fmt::format("{}{}{}  ", damage ? style.red : style.yellow, word, style.reset);
  std::string what;
  if (!group.tensors.empty()) what += list_text(group.tensors, "") + ": ";
  what += printable_text(f.message);
  text += fold_text(what, kIndent) + "\n";
  if (f.file.empty()) return text;
  // A finding at byte 0 is rather one about the whole file, or about a folder.
  const std::string place =
      printable_text(f.file) + (f.offset > 0 ? fmt::format(" at byte {}", f.offset) : "");
  return text + fmt::format("{:{}}{}{}{}\n", "", kIndent, style.dim, fold_text(place, kIndent),
                            style.reset);
}

std::string unprotected_text(const VerifyReport& report, bool all) {
  const auto& names = report.unprotected;
  if (names.empty()) return "";
  std::string text =
      "         " +
      fold_text(fmt::format("{} without a checksum: a changed value there cannot be detected",
                            plural(names.size(), "array")),
                kIndent);
  if (all) {
    text += '\n';
    for (const auto& name : names)
      text += "         " + fold_text(printable_text(name), kIndent) + "\n";
    return text;
  }
  return text + "\n         " +
         fold_text(list_text(names, " (--unprotected lists them)"), kIndent) + "\n";
}

// Orbax and Zarr compress with zstd, and seldom store a checksum.
std::string limitation_text(const VerifyReport& report, const VerifyArguments& options) {
  const std::string limitation = codec_limitation();
  if (limitation.empty() || report.unprotected.empty()) return "";
  const auto checkpoint = try_call([&] { return open(report.path, options.source.options); });
  if (!checkpoint) return "";
  const std::string& format = checkpoint.value()->info().format;
  return format == "orbax" || format == "zarr" ? "         " + limitation + "\n" : "";
}

std::string verdict_words(const VerifyReport& report, bool strict) {
  const Style& style = stdout_style();
  const auto places = [&](Severity severity) { return grouped(report, severity).size(); };
  switch (report.verdict(strict)) {
    case Verdict::kGood:
      return fmt::format("{}good{}     no damage", style.green, style.reset);
    case Verdict::kNotChecked:
      return fmt::format("{}unknown{}  {} not checked, no damage in the rest,", style.yellow,
                         style.reset, plural(places(Severity::kNotChecked), "place"));
    case Verdict::kDamaged:
      break;
  }
  if (!report.damaged())
    return fmt::format("{}bad{}      {} (--strict)", style.red, style.reset,
                       plural(places(Severity::kNote), "note"));
  return fmt::format("{}bad{}      {} of damage", style.red, style.reset,
                     plural(places(Severity::kDamage), "place"));
}

// Names what was verified, where the command line does not: a step, or one of several checkpoints.
std::string subject_text(const VerifyReport& report, bool several) {
  if (report.step)
    return fmt::format("step     {}: {}\n", *report.step, printable_text(report.path));
  return several ? "path     " + printable_text(report.path) + "\n" : "";
}

// The exit status for a verdict, which the worst finding determines.
int verdict_status(Verdict verdict) {
  switch (verdict) {
    case Verdict::kGood:
      return kGood;
    case Verdict::kNotChecked:
      return kFailure;
    case Verdict::kDamaged:
      break;
  }
  return kNo;
}

void write_report(const VerifyReport& report, const VerifyArguments& options, bool several) {
  out().show(subject_text(report, several));
  for (const Severity severity : {Severity::kDamage, Severity::kNotChecked, Severity::kNote})
    for (const auto& group : grouped(report, severity)) out().show(group_text(group));
  out().show(unprotected_text(report, options.list_unprotected));
  out().show(limitation_text(report, options));
}

std::string summary_text(const VerifyReport& report, bool strict) {
  return fmt::format("{} in {}, {} ({}) read in {}\n", verdict_words(report, strict),
                     plural(report.tensors, "tensor"), plural(report.chunks, "chunk"),
                     bytes_text(report.bytes), duration_text(report.seconds));
}

// The last line about several checkpoints: "1 of 20 damaged, 2 not checked".
std::string total_text(const std::vector<VerifyReport>& reports, bool strict) {
  const auto count = [&](Verdict verdict) {
    return std::count_if(reports.begin(), reports.end(), [&](const VerifyReport& report) {
      return report.verdict(strict) == verdict;
    });
  };
  const auto not_checked = count(Verdict::kNotChecked);
  return fmt::format("{} of {} damaged{}\n", count(Verdict::kDamaged), reports.size(),
                     not_checked > 0 ? fmt::format(", {} not checked", not_checked) : "");
}

std::vector<VerifyReport> verify_each(const VerifyArguments& options, const VerifyOptions& how) {
  std::vector<VerifyReport> reports;
  if (!options.all_steps && options.paths.size() > 1) return verify_all(options.paths, how);
  for (const std::string& path : options.paths) {
    if (!options.all_steps) {
      reports.push_back(verify(path, how));
      continue;
    }
    std::vector<VerifyReport> steps = verify_steps(path, how);
    std::move(steps.begin(), steps.end(), std::back_inserter(reports));
  }
  return reports;
}

int run_verify(VerifyArguments& options, int& status) {
  finish_options(options.source);
  const bool several = options.all_steps || options.paths.size() > 1;
  std::vector<VerifyReport> reports;
  try {
    ProgressBar bar("verifying");
    const auto progress = [&](std::uint64_t done, std::uint64_t total) { bar.update(done, total); };
    const VerifyOptions how{
        .open = options.source.options, .progress = progress, .multiprocessing = job()};
    reports = verify_each(options, how);
  } catch (const Error& e) {
    if (options.all_steps && e.code() == Code::kInvalidArgument) throw UsageError(e.message());
    throw Failure(e.message());
  }
  Verdict worst = Verdict::kGood;
  for (const auto& report : reports) worst = std::max(worst, report.verdict(options.strict));
  status = verdict_status(worst);  // set before printing, because a closed pipe may end it
  if (options.json) {
    out().show_json(several ? verify_json(reports, options.strict)
                            : verify_json(reports.front(), options.strict));
    return status;
  }
  for (const auto& report : reports) {
    write_report(report, options, several);
    out().show(summary_text(report, options.strict));
  }
  if (several) out().show(total_text(reports, options.strict));
  return status;
}

}  // namespace

void setup_verify(CLI::App& app, int& status) {
  const auto options = std::make_shared<VerifyArguments>();
  CLI::App* command =
      app.add_subcommand("verify", "Read every byte and check everything that can be checked");
  check_path(command->add_option("CKPT", options->paths,
                                 "Checkpoints: directories or files of any format"))
      ->required();
  add_reading_options(*command, options->source);
  command->add_flag("--json", options->json, "Print one JSON object (docs/reference/json.md)");
  command->add_flag("--unprotected", options->list_unprotected,
                    "List every array without a checksum");
  command->add_flag("--all-steps", options->all_steps,
                    "Check every step of a step root, not only the latest,\n"
                    "or every checkpoint in a folder");
  command->add_flag("--strict", options->strict, "Treat notes as damage");
  command->footer(
      "Verifies every checksum, reference and chunk. Continues after damage.\n"
      "\n"
      "Exit status 1: something is damaged. 3: there is no damage, but something could not be\n"
      "checked (no permission, or a type or codec that Cairn does not know). For several\n"
      "checkpoints, the worst one decides.\n"
      "\n"
      "Under an MPI launcher (mpirun -n 8 cairn verify ...) the processes share the bytes. Each\n"
      "process uses --memory.\n"
      "\n"
      "Examples:\n"
      "  cairn verify ckpt && echo fit to restore\n"
      "  cairn verify a.safetensors b.npz\n"
      "  cairn verify run/checkpoints --all-steps");
  command->callback([options, &status] { status = run_verify(*options, status); });
}

}  // namespace cairn::cli
