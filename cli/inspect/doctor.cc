// doctor.cc -- cairn doctor: what Cairn finds on this machine.
#include <cairn/tools/doctor/doctor.h>

#include "arguments/stores.h"
#include "commands.h"
#include "mpi/load.h"
#include "screen/terminal.h"
#include "screen/text.h"
#include "source.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

namespace cairn::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kValueColumn = 30;

struct DoctorArguments {
  std::string path;
  bool json = false;
  StoreOptions store;
};

doctor::Check check_mpi() {
  doctor::Check check{.section = "command", .name = "mpi"};
  try {
    check.value = mpi_module_library();
  } catch (const Error& e) {
    check.value = "none: " + e.message();
    check.result = doctor::CheckResult::kNote;
    check.advice = "the command cannot share its work under mpirun or srun";
  }
  return check;
}

std::string variable_or(const char* name, const std::string& other) {
  const char* value = std::getenv(name);
  return value != nullptr && *value != '\0' ? value : other;
}

struct Shell {
  std::string name;
  std::string own;        // where users put a script
  std::string installed;  // below the prefix of an installation
};

// The script that the shell would find first.
doctor::Check check_completion(const Shell& shell, const fs::path& command) {
  doctor::Check check{.section = "command", .name = shell.name + " completion"};
  const std::vector<fs::path> places = {
      shell.own, command.parent_path().parent_path() / shell.installed,
      fs::path("/usr/local") / shell.installed, fs::path("/usr") / shell.installed};
  const auto found = std::ranges::find_if(places, [](const fs::path& place) {
    std::error_code error;
    return fs::is_regular_file(place, error);
  });
  check.value = found != places.end() ? found->lexically_normal().string()
                                      : "none: cairn completion " + shell.name + " prints it";
  return check;
}

// What belongs to the command and not to the library.
std::vector<doctor::Check> check_command() {
  std::error_code error;
  const fs::path command = fs::read_symlink("/proc/self/exe", error);
  std::vector<doctor::Check> checks = {
      {.section = "command", .name = "path", .value = command.string()}, check_mpi()};
  const std::string home = variable_or("HOME", "");
  const std::string data = variable_or("XDG_DATA_HOME", home + "/.local/share");
  const std::string config = variable_or("XDG_CONFIG_HOME", home + "/.config");
  for (const Shell& shell :
       std::vector<Shell>{{"bash", data + "/bash-completion/completions/cairn",
                           "share/bash-completion/completions/cairn"},
                          {"zsh", home + "/.zfunc/_cairn", "share/zsh/site-functions/_cairn"},
                          {"fish", config + "/fish/completions/cairn.fish",
                           "share/fish/vendor_completions.d/cairn.fish"}})
    checks.push_back(check_completion(shell, command));
  return checks;
}

std::vector<doctor::Check> check_given_place(const DoctorArguments& arguments) {
  try {
    return doctor::check_place(arguments.path, arguments.store);
  } catch (const Error& e) {
    if (e.code() == Code::kInvalidArgument || e.code() == Code::kUnimplemented)
      throw UsageError(e.message());
    throw Failure(e.message());
  }
}

void append(std::vector<doctor::Check>& checks, std::vector<doctor::Check> more) {
  std::move(more.begin(), more.end(), std::back_inserter(checks));
}

std::uint64_t count(const std::vector<doctor::Check>& checks, doctor::CheckResult result) {
  return static_cast<std::uint64_t>(
      std::ranges::count(checks, result, [](const doctor::Check& c) { return c.result; }));
}

void show_check(const doctor::Check& check) {
  const Style& style = stdout_style();
  const std::string value = check.bytes ? bytes_text(*check.bytes) : printable_text(check.value);
  out().show(
      fmt::format("  {:<{}}{}\n", check.name, kValueColumn - 2, fold_text(value, kValueColumn)));
  if (check.result == doctor::CheckResult::kGood) return;
  const bool is_problem = check.result == doctor::CheckResult::kProblem;
  const std::string label = is_problem ? "problem: " : "note: ";
  out().show(fmt::format("{}{}{}{}{}\n", std::string(kValueColumn, ' '),
                         is_problem ? style.red : style.yellow, label, style.reset,
                         fold_text(printable_text(check.advice), kValueColumn + label.size())));
}

void show(const std::vector<doctor::Check>& checks) {
  const Style& style = stdout_style();
  std::string section;
  for (const doctor::Check& check : checks) {
    if (check.section != section)
      out().show(fmt::format("{}{}{}\n", style.bold, check.section, style.reset));
    section = check.section;
    show_check(check);
  }
  const std::uint64_t problems = count(checks, doctor::CheckResult::kProblem);
  const std::uint64_t notes = count(checks, doctor::CheckResult::kNote);
  out().show(fmt::format("{}{}\n", problems == 0 ? "no problem" : plural(problems, "problem"),
                         notes == 0 ? "" : ", " + plural(notes, "note")));
}

int run_doctor(const DoctorArguments& arguments) {
  std::vector<doctor::Check> checks = doctor::check_machine();
  append(checks, check_command());
  append(checks, doctor::check_stores(arguments.store));
  if (!arguments.path.empty()) append(checks, check_given_place(arguments));
  if (arguments.json)
    out().show_json(doctor::checks_json(checks, arguments.path));
  else
    show(checks);
  return count(checks, doctor::CheckResult::kProblem) == 0 ? kGood : kNo;
}

}  // namespace

void setup_doctor(CLI::App& app, int& status) {
  const auto arguments = std::make_shared<DoctorArguments>();
  CLI::App* command = app.add_subcommand("doctor", "Show what Cairn finds on this machine");
  check_path(command->add_option(
      "PATH", arguments->path, "A place for checkpoints to test: a folder, or the URL of a store"));
  add_store_options(*command, arguments->store);
  command->add_flag("--json", arguments->json, "Print one JSON object (cairn schema doctor)");
  command->footer(
      "Shows versions, the processor and its limits, the libraries that URLs need, where Cairn\n"
      "finds credentials (never a secret), and what the file system of PATH can do. Add the\n"
      "output to bug reports.\n"
      "\n"
      "Writes small files into PATH/cairn-doctor-PID and removes them. Without a URL it uses no\n"
      "network and asks no metadata service. With a URL it lists that store and writes nothing\n"
      "there.\n"
      "\n"
      "Exit status 1: there is a problem; something that Cairn needs is missing. With notes\n"
      "only, it is 0: everything works, but slower or with fewer features.\n"
      "\n"
      "Examples:\n"
      "  cairn doctor\n"
      "  cairn doctor /checkpoints\n"
      "  cairn doctor s3://bucket/run --json");
  command->callback([arguments, &status] { status = run_doctor(*arguments); });
}

}  // namespace cairn::cli
