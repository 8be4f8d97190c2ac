// main.cc -- cairn COMMAND ...: dispatch and exit status.
#include "arguments/options.h"
#include "commands.h"
#include "interrupt.h"
#include "ranks.h"
#include "screen/help.h"
#include "screen/terminal.h"
#include "source.h"

#include <cairn/cairn.h>

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>
#include <CLI/CLI.hpp>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <new>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cairn::cli {
namespace {

// Every subcommand, and what it has beside its output.
constexpr std::pair<void (*)(CLI::App&, int&), unsigned> kCommands[] = {
    {setup_ls, 0},
    {setup_info, 0},
    {setup_tree, 0},
    {setup_du, 0},
    {setup_cat, kProgress},
    {setup_stats, kProgress},
    {setup_diff, kProgress | kReport},
    {setup_report, kProgress | kReport},
    {setup_verify, kProgress | kReport},
    {setup_convert, kProgress | kReport},
    {setup_merge, kProgress | kReport},
    {setup_models, 0},
    {setup_repair, kProgress | kReport},
    {setup_reshard, kProgress | kReport},
    {setup_compact, kProgress | kReport},
    {setup_steps, 0},
    {setup_prune, kReport},
    {setup_clean, kReport},
    {setup_bench, kProgress},
    {setup_doctor, 0},
    {setup_dump, 0},
    {setup_schema, 0},
    {setup_completion, 0},
    {setup_help, 0},
};

// Suggests a command or an option for the first argument that is neither.
std::string suggestion(CLI::App& app) {
  const auto chosen = app.get_subcommands();
  const CLI::App& at = chosen.empty() ? app : *chosen.front();
  const auto rest = at.remaining();
  if (rest.empty()) return "";
  const std::string word = rest.front().substr(0, rest.front().find('='));
  std::vector<std::string> words;
  if (!word.starts_with('-')) {
    if (!chosen.empty()) return "";
    for (const CLI::App* command : all_commands(app)) words.push_back(command->get_name());
  } else {
    for (const CLI::Option* option : at.get_options())
      for (const auto& name : option->get_lnames()) words.push_back("--" + name);
  }
  return did_you_mean(word, words);
}

int finish(CLI::App& app, const CLI::ParseError& e) {
  const bool is_answer = e.get_exit_code() == 0;  // to --help or --version
  const auto rest = app.remaining();
  if (is_answer && !rest.empty()) {
    print_error("The following argument was not expected: " + rest.front());
    advise("Try: cairn --help");
    return kUsage;
  }
  if (is_answer) {
    std::ostringstream text;
    app.exit(e, text, text);
    out().show(text.str());
    return kGood;
  }
  print_error(e.what() + suggestion(app));
  const auto chosen = app.get_subcommands();
  advise("Try: cairn " + (chosen.empty() ? "" : chosen.front()->get_name() + " ") + "--help");
  return kUsage;
}

// A checkpoint may have thousands of data files, but the default limit is often about a thousand
// open files.
void allow_many_files() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

// A file that is opened gets the lowest free descriptor. Where a standard stream is closed, a
// checkpoint's file would get its number, and messages would be written into the checkpoint. The
// streams that are opened here are of no use, so that writing to them fails as before.
void reserve_standard_streams() {
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (::fcntl(stream, F_GETFD) < 0 && errno == EBADF)
      (void)::open("/dev/null", stream == STDIN_FILENO ? O_WRONLY : O_RDONLY);
}

// Flushes the output that was printed before the error, then prints the error.
int fail(std::string_view message, int status = kFailure) {
  try {
    out().flush();
  } catch (const BrokenPipe&) {
  } catch (const Error&) {  // the first error matters more
  }
  print_error(message);
  return status;
}

// Runs f. Returns `status`, which f may set. If f throws, prints the error and returns the status
// for that exception.
template <class F>
int guarded(const int& status, F&& f) {
  try {
    std::forward<F>(f)();
    return status;
  } catch (const BrokenPipe&) {
    return status;
  } catch (const Error& e) {
    return fail(e.message(), e.code() == Code::kInvalidArgument ? kUsage : kFailure);
  } catch (const std::bad_alloc&) {
    return fail("out of memory; give a lower --memory to use less");
  } catch (const std::filesystem::filesystem_error& e) {
    std::error_code gone;
    (void)std::filesystem::current_path(gone);
    if (gone) return fail("the working directory: " + gone.message());
    return fail((e.path1().empty() ? "" : e.path1().string() + ": ") + e.code().message());
  } catch (const std::exception& e) {
    return fail(std::string("unexpected error: ") + e.what());
  } catch (...) {
    return fail("unexpected error of an unknown type");
  }
}

int run(int argc, char** argv) {
  int status = kGood;
  CLI::App app("Opens, shows, verifies and converts the checkpoints of machine-learning models.",
               "cairn");
  style_help(app);
  app.set_version_flag("--version", "cairn " + std::string(version()) + "\n" + codec_versions());
  app.require_subcommand(0, 1);
  app.footer(
      "Most commands take a checkpoint of any format: an Orbax directory or step root, a\n"
      ".safetensors file or its index, an .npz or .npy file, a .pt file of PyTorch, a flax "
      "msgpack\n"
      "file, the prefix or folder of a TensorFlow checkpoint.\n"
      "\n"
      "Exit status: 0 good; 1 the answer is no (damaged, different, no match); 2 wrong usage; 3\n"
      "could not read or write; cairn help exit-codes has more.\n"
      "\n"
      "Examples:\n"
      "  cairn ls ckpt                     what is in it\n"
      "  cairn du ckpt                     how large is each part?\n"
      "  cairn cat ckpt params.bias        one tensor\n"
      "  cairn diff old new                what has changed?\n"
      "  cairn verify ckpt                 is every byte right?\n"
      "  cairn convert ckpt m.safetensors  into another format");
  add_screen_options(app, 0);
  for (const auto& [setup, screen] : kCommands) {
    setup(app, status);
    add_screen_options(*all_commands(app).back(), screen);
  }
  return guarded(status, [&] {
    try {
      app.parse(argc, argv);
      if (app.get_subcommands().empty()) {
        std::fputs(app.help().c_str(), stderr);
        status = kUsage;
      }
    } catch (const CLI::ParseError& e) {
      status = finish(app, e);
    }
    out().finish();
  });
}

}  // namespace
}  // namespace cairn::cli

int main(int argc, char** argv) {
  cairn::cli::reserve_standard_streams();
  // write returns EPIPE instead, and the command ends without an error
  std::signal(SIGPIPE, SIG_IGN);
  // write returns EFBIG beyond a file size limit, and the command cleans up
  std::signal(SIGXFSZ, SIG_IGN);
  cairn::cli::end_cleanly_on_signals();
  cairn::cli::allow_many_files();
  int status = cairn::cli::kGood;
  status = cairn::cli::guarded(status, [&] {
    status = cairn::cli::run_ranks(argc, argv, [&] { return cairn::cli::run(argc, argv); });
  });
  cairn::cli::wait_if_ending();
  return status;
}
