// main.cc -- cairn COMMAND ...: dispatch and exit status.
#include "commands.h"
#include "help.h"
#include "interrupt.h"
#include "ranks.h"
#include "source.h"
#include "terminal.h"

#include <cairn/cairn.h>

#include <sys/resource.h>
#include <CLI/CLI.hpp>

#include <csignal>
#include <new>

namespace cairn::cli {
namespace {

int finish(CLI::App& app, const CLI::ParseError& e) {
  if (is_muted()) return e.get_exit_code() == 0 ? kGood : kUsage;
  if (e.get_exit_code() == 0) return app.exit(e);  // --help, --version
  complain(e.what());
  const auto chosen = app.get_subcommands();
  std::fprintf(stderr, "Try: cairn %s--help\n", chosen.empty() ? "" : (chosen.front()->get_name() + " ").c_str());
  return kUsage;
}

// A checkpoint may have thousands of data files, and who starts programs often lets them open a thousand.
void allow_many_files() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

int run(int argc, char** argv) {
  int status = kGood;
  CLI::App app("Opens, shows, verifies and converts the checkpoints of machine-learning models.", "cairn");
  style_help(app);
  app.set_version_flag("--version", "cairn " + std::string(version()));
  app.require_subcommand(0, 1);
  app.footer(
      "Every command takes a checkpoint of any format: an Orbax directory or step root, a .safetensors\n"
      "file or its index, an .npz or .npy file, a flax msgpack file, the prefix or folder of a TensorFlow checkpoint.\n\n"
      "Exit status: 0 good; 1 the answer is no (damaged, different, no match); 2 wrong usage; 3 could not read or write.\n\n"
      "Examples:\n"
      "  cairn ls ckpt                     what is in it\n"
      "  cairn cat ckpt params.bias        one tensor\n"
      "  cairn diff old new                what has changed?\n"
      "  cairn verify ckpt                 is every byte right?\n"
      "  cairn convert ckpt m.safetensors  into another format");
  for (const auto setup : {setup_ls, setup_info, setup_tree, setup_cat, setup_stats, setup_diff, setup_verify, setup_convert, setup_reshard,
                           setup_compact, setup_clean, setup_bench, setup_dump, setup_completion})
    setup(app, status);
  try {
    app.parse(argc, argv);
    if (app.get_subcommands().empty()) {
      std::fputs(app.help().c_str(), stderr);
      return kUsage;
    }
    out().flush();
    return status;
  } catch (const CLI::ParseError& e) {
    return finish(app, e);
  } catch (const BrokenPipe&) {
    return status;
  } catch (const UsageError& e) {
    complain(e.what());
    return kUsage;
  } catch (const Error& e) {
    complain(e.message());
    return e.code() == Code::kInvalidArgument ? kUsage : kFailure;
  } catch (const Failure& e) {
    complain(e.what());
  } catch (const std::bad_alloc&) {
    complain("out of memory; --memory lowers what is used");
  }
  return kFailure;
}

}  // namespace
}  // namespace cairn::cli

int main(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_IGN);  // write says EPIPE instead, and we end quietly
  std::signal(SIGXFSZ, SIG_IGN);  // write says EFBIG beyond a file size limit, and we clean up
  cairn::cli::end_cleanly_on_signals();
  cairn::cli::allow_many_files();
  const int status = cairn::cli::run_ranks(argc, argv, [&] { return cairn::cli::run(argc, argv); });
  cairn::cli::wait_if_ending();
  return status;
}
