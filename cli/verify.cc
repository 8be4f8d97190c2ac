// verify.cc -- cairn verify: is every byte right?
#include "commands.h"
#include "source.h"
#include "terminal.h"
#include "text.h"

#include <fmt/format.h>

#include <chrono>

namespace cairn::cli {
namespace {

struct VerifyOptions {
  Source source;
  bool json = false;
  bool list_unprotected = false;
};

constexpr std::size_t kNamesShown = 5;

std::string finding_text(const Finding& f) {
  const Style& style = stdout_style();
  const bool damage = f.severity == Severity::kDamage;
  std::string text = fmt::format("{}{}{}  ", damage ? style.red : style.yellow, damage ? "DAMAGED" : "note   ", style.reset);
  if (!f.tensor.empty()) text += printable(f.tensor) + ": ";
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
  for (std::size_t i = 0; i < names.size() && i < kNamesShown; ++i) text.append(i > 0 ? ", " : "\n         ").append(printable(names[i]));
  if (names.size() > kNamesShown) text += fmt::format(" and {} more (--unprotected lists them)", names.size() - kNamesShown);
  return text + "\n";
}

std::string summary_text(const VerifyReport& report, double seconds) {
  const Style& style = stdout_style();
  std::uint64_t damaged = 0;
  for (const auto& f : report.findings) damaged += f.severity == Severity::kDamage ? 1U : 0U;
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
    report = verify(options.source.path, options.source.options, [&](std::uint64_t done, std::uint64_t total) { bar.update(done, total); });
  } catch (const Error& e) {
    throw Failure(e.message());
  }
  status = report.damaged() ? kNo : kGood;  // known before printing, which a closed pipe may end
  if (options.json) {
    out().write(verify_json(report));
    return status;
  }
  for (const Severity severity : {Severity::kDamage, Severity::kNote})
    for (const auto& f : report.findings)
      if (f.severity == severity) out().write(finding_text(f));
  out().write(unprotected_text(report, options.list_unprotected));
  out().write(summary_text(report, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count()));
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
      "Checks every checksum, reference and chunk and goes on after damage. Exit status 1 if anything is damaged.\n\n"
      "Example:\n"
      "  cairn verify ckpt && echo fit to restore");
  command->callback([options, &status] { status = run_verify(*options, status); });
}

}  // namespace cairn::cli
