// verify.cc -- cairn verify: is every byte right?
#include "commands.h"
#include "ranks.h"
#include "source.h"
#include "terminal.h"
#include "text.h"

#include <fmt/format.h>

#include <chrono>
#include <map>
#include <tuple>

namespace cairn::cli {
namespace {

struct VerifyOptions {
  Source source;
  bool json = false;
  bool list_unprotected = false;
};

constexpr std::size_t kNamesShown = 5;

// Findings that say the same about several tensors: a damaged manifest takes all of them with it.
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
  for (std::size_t i = 0; i < names.size() && i < kNamesShown; ++i) text.append(i > 0 ? ", " : "").append(printable(names[i]));
  if (names.size() > kNamesShown) text += fmt::format(" and {} more{}", names.size() - kNamesShown, more);
  return text;
}

std::string group_text(const Group& group) {
  const Style& style = stdout_style();
  const Finding& f = *group.finding;
  const bool damage = f.severity == Severity::kDamage;
  std::string text = fmt::format("{}{}{}  ", damage ? style.red : style.yellow, damage ? "DAMAGED" : "note   ", style.reset);
  if (!group.tensors.empty()) text += list_text(group.tensors, "") + ": ";
  text += printable(f.message) + "\n";
  if (!f.file.empty()) text += fmt::format("         {}{} at byte {}{}\n", style.dim, printable(f.file), f.offset, style.reset);
  return text;
}

std::string unprotected_text(const VerifyReport& report, bool all) {
  const auto& names = report.unprotected;
  if (names.empty()) return "";
  const Style& style = stdout_style();
  std::string text = fmt::format("{}note   {}  {} without a checksum: a changed value there cannot be noticed", style.yellow, style.reset,
                                 plural(names.size(), "array"));
  if (all) {
    text += '\n';
    for (const auto& name : names) text += "         " + printable(name) + "\n";
    return text;
  }
  return text + "\n         " + list_text(names, " (--unprotected lists them)") + "\n";
}

std::string summary_text(const VerifyReport& report, std::size_t damaged, double seconds) {
  const Style& style = stdout_style();
  const std::string verdict = damaged == 0 ? fmt::format("{}good{}     no damage", style.green, style.reset)
                                           : fmt::format("{}bad{}      {} of damage", style.red, style.reset, plural(damaged, "place"));
  return fmt::format("{} in {}, {} ({}) read in {}\n", verdict, plural(report.tensors, "tensor"), plural(report.chunks, "chunk"),
                     bytes_text(report.bytes), duration_text(seconds));
}

int run_verify(VerifyOptions& options, int& status) {
  const auto start = std::chrono::steady_clock::now();
  finish_options(options.source);
  VerifyReport report;
  try {
    ProgressBar bar("verifying");
    report = verify(
        options.source.path, options.source.options, [&](std::uint64_t done, std::uint64_t total) { bar.update(done, total); }, job());
  } catch (const Error& e) {
    throw Failure(e.message());
  }
  status = report.damaged() ? kNo : kGood;  // known before printing, which a closed pipe may end
  if (options.json) {
    out().write(verify_json(report));
    return status;
  }
  const auto damages = grouped(report, Severity::kDamage);
  for (const auto& group : damages) out().write(group_text(group));
  for (const auto& group : grouped(report, Severity::kNote)) out().write(group_text(group));
  out().write(unprotected_text(report, options.list_unprotected));
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  out().write(summary_text(report, damages.size(), seconds));
  return status;
}

}  // namespace

void setup_verify(CLI::App& app, int& status) {
  const auto options = std::make_shared<VerifyOptions>();
  CLI::App* command = app.add_subcommand("verify", "Read every byte and check all that can be checked");
  add_source(*command, options->source);
  command->add_flag("--json", options->json, "One object for programs (docs/cli.md)");
  command->add_flag("--unprotected", options->list_unprotected, "Name every array that carries no checksum");
  command->footer(
      "Checks every checksum, reference and chunk and goes on after damage. Exit status 1 if anything is damaged.\n"
      "Under an MPI launcher (mpirun -n 8 cairn verify ...) the processes share out the bytes; --memory is for each.\n\n"
      "Example:\n"
      "  cairn verify ckpt && echo fit to restore");
  command->callback([options, &status] { status = run_verify(*options, status); });
}

}  // namespace cairn::cli
