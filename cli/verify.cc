// verify.cc -- cairn verify: checks every byte of a checkpoint.
#include "commands.h"
#include "ranks.h"
#include "screen/terminal.h"
#include "screen/text.h"
#include "source.h"

#include <cairn/codec_versions.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <tuple>

namespace cairn::cli {
namespace {

struct VerifyArguments {
  Source source;
  bool json = false;
  bool list_unprotected = false;
  bool all_steps = false;
  bool strict = false;
};

constexpr std::size_t kNamesShown = 5;

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
  if (!group.tensors.empty()) text += list_text(group.tensors, "") + ": ";
  text += printable_text(f.message) + "\n";
  if (!f.file.empty())
    text += fmt::format("         {}{} at byte {}{}\n", style.dim, printable_text(f.file), f.offset,
                        style.reset);
  return text;
}

std::string unprotected_text(const VerifyReport& report, bool all) {
  const auto& names = report.unprotected;
  if (names.empty()) return "";
  std::string text =
      fmt::format("         {} without a checksum: a changed value there cannot be detected",
                  plural(names.size(), "array"));
  if (all) {
    text += '\n';
    for (const auto& name : names) text += "         " + printable_text(name) + "\n";
    return text;
  }
  return text + "\n         " + list_text(names, " (--unprotected lists them)") + "\n";
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

// For a step root, names the verified step. Without --all-steps no other step is verified.
std::string step_text(const VerifyReport& report, bool all_steps) {
  if (all_steps) return "step     " + printable_text(report.path) + "\n";
  if (!report.step) return "";
  return fmt::format("step     {}: {}\n", *report.step, printable_text(report.path));
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

void write_report(const VerifyReport& report, const VerifyArguments& options) {
  out().show(step_text(report, options.all_steps));
  for (const Severity severity : {Severity::kDamage, Severity::kNotChecked, Severity::kNote})
    for (const auto& group : grouped(report, severity)) out().show(group_text(group));
  out().show(unprotected_text(report, options.list_unprotected));
  out().show(limitation_text(report, options));
}

std::string summary_text(const VerifyReport& report, bool strict, double seconds) {
  return fmt::format("{} in {}, {} ({}) read in {}\n", verdict_words(report, strict),
                     plural(report.tensors, "tensor"), plural(report.chunks, "chunk"),
                     bytes_text(report.bytes), duration_text(seconds));
}

int run_verify(VerifyArguments& options, int& status) {
  const auto start = std::chrono::steady_clock::now();
  finish_options(options.source);
  const auto seconds = [&] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  std::vector<VerifyReport> reports;
  try {
    ProgressBar bar("verifying");
    const auto progress = [&](std::uint64_t done, std::uint64_t total) { bar.update(done, total); };
    const VerifyOptions how{
        .open = options.source.options, .progress = progress, .multiprocessing = job()};
    if (options.all_steps)
      reports = verify_steps(options.source.path, how);
    else
      reports.push_back(verify(options.source.path, how));
  } catch (const Error& e) {
    if (options.all_steps && e.code() == Code::kInvalidArgument) throw UsageError(e.message());
    throw Failure(e.message());
  }
  Verdict worst = Verdict::kGood;
  for (const auto& report : reports) worst = std::max(worst, report.verdict(options.strict));
  status = verdict_status(worst);  // set before printing, because a closed pipe may end it
  if (options.json) {
    out().show_json(options.all_steps ? verify_json(reports, options.strict)
                                      : verify_json(reports.front(), options.strict));
    return status;
  }
  for (const auto& report : reports) {
    write_report(report, options);
    out().show(summary_text(report, options.strict, seconds()));
  }
  return status;
}

}  // namespace

void setup_verify(CLI::App& app, int& status) {
  const auto options = std::make_shared<VerifyArguments>();
  CLI::App* command =
      app.add_subcommand("verify", "Read every byte and check everything that can be checked");
  add_source(*command, options->source);
  command->add_flag("--json", options->json, "Print one JSON object (docs/cli.md)");
  command->add_flag("--unprotected", options->list_unprotected,
                    "List every array without a checksum");
  command->add_flag("--all-steps", options->all_steps,
                    "Check every step of a step root, not only the latest");
  command->add_flag("--strict", options->strict, "Treat notes as damage");
  command->footer(
      "Verifies every checksum, reference and chunk. Continues after damage.\n"
      "\n"
      "Exit status 1: something is damaged. 3: there is no damage, but something could not be\n"
      "checked (no permission, or a type or codec that Cairn does not know).\n"
      "\n"
      "Under an MPI launcher (mpirun -n 8 cairn verify ...) the processes share the bytes. Each\n"
      "process uses --memory.\n"
      "\n"
      "Example:\n"
      "  cairn verify ckpt && echo fit to restore");
  command->callback([options, &status] { status = run_verify(*options, status); });
}

}  // namespace cairn::cli
