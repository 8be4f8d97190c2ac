// ranks.cc -- detects a launcher in the environment, and only then loads the module that uses MPI.
#include "ranks.h"

#include "commands.h"
#include "mpi/load.h"
#include "screen/terminal.h"

#include <cairn/cairn.h>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>
#include <thread>

namespace cairn::cli {
namespace {

// If a process is killed, the launcher ends the others. The work of one process has no known upper
// limit, so the others wait as long as it lives.
constexpr Coordinator::Timeout kForever = std::chrono::hours(24 * 365);
// A process that fails alone, outside all collective steps, tells the others by leaving. It waits
// at most this long for them at the end.
constexpr Coordinator::Timeout kFarewell = std::chrono::seconds(600);

struct Variables {
  const char* count;  // nullptr: the launcher does not provide it
  const char* rank;
};
constexpr std::array<Variables, 4> kLaunchers = {{
    {"OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"},  // OpenMPI's mpirun
    // MPICH's and Intel's mpiexec, srun --mpi=pmi2
    {"PMI_SIZE", "PMI_RANK"},
    {"MV2_COMM_WORLD_SIZE", "MV2_COMM_WORLD_RANK"},  // MVAPICH2's mpirun_rsh
    {"SLURM_STEP_NUM_TASKS", "PMIX_RANK"},           // srun --mpi=pmix
}};

// The environment's description of the job that this process belongs to.
struct Launched {
  std::string seen;                  // "PMI_SIZE=4"
  std::optional<std::size_t> count;  // empty: the launcher does not provide it
  std::size_t rank = 0;
};

std::optional<std::size_t> number_in(const char* variable) {
  const char* text = std::getenv(variable);
  if (text == nullptr) return std::nullopt;
  const std::string_view digits(text);
  std::size_t number = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (error != std::errc() || end != digits.data() + digits.size()) return std::nullopt;
  return number;
}

// Empty if there is no launcher, or if it has started a single process.
std::optional<Launched> launched() {
  const char* wanted = std::getenv("CAIRN_MPI");
  if (wanted != nullptr && std::string_view(wanted) == "off") return std::nullopt;
  for (const Variables& variables : kLaunchers) {
    const auto rank = number_in(variables.rank);
    if (!rank) continue;
    const auto count = number_in(variables.count);
    if (count && *count <= 1) return std::nullopt;
    const char* variable = count ? variables.count : variables.rank;
    return Launched{fmt::format("{}={}", variable, std::getenv(variable)), count, *rank};
  }
  return std::nullopt;
}

Error no_mpi(const Launched& launcher, const std::string& why) {
  return Error(Code::kFailedPrecondition,
               launcher.seen + " shows that an MPI launcher started this command, but " + why +
                   "; start cairn once without the launcher, or set CAIRN_MPI=off if this process "
                   "is not part of the job");
}

std::unique_ptr<Coordinator> start_mpi(const Launched& launcher) {
  StartFunction* start =
      load_mpi_module([&](const std::string& why) { return no_mpi(launcher, why); });
  std::unique_ptr<Coordinator> job;
  start(std::string(version()).c_str(), job);
  const bool several = launcher.rank > 0 || launcher.count.value_or(1) > 1;
  if (launcher.count ? job->process_count() != *launcher.count
                     : several && job->process_count() == 1)
    throw no_mpi(launcher,
                 fmt::format("the MPI that Cairn was built with sees {} of its processes: "
                             "the launcher belongs to another MPI",
                             job->process_count()));
  return job;
}

MultiprocessingOptions& shared_job() {
  static MultiprocessingOptions options{.timeout = kForever, .write_timeout = kForever};
  return options;
}

// Returns whether the processes can share the work of this command.
bool is_shared_out(int argc, char** argv) {
  constexpr std::array<std::string_view, 5> kShared = {"convert", "diff", "merge", "reshard",
                                                       "verify"};
  const char* const* command =
      std::find_if(argv + 1, argv + argc, [](const char* argument) { return argument[0] != '-'; });
  return command != argv + argc &&
         std::find(kShared.begin(), kShared.end(), *command) != kShared.end();
}

// All processes must have the same arguments. Otherwise they would wait for each other forever.
void check_same_command(const MultiprocessingOptions& all, int argc, char** argv) {
  const std::vector<Bytes> replies = do_together(all, "cairn: command", [&] {
    std::string text(version());
    for (int i = 1; i < argc; ++i) text.append("\n").append(argv[i]);
    return Bytes(as_bytes(text).begin(), as_bytes(text).end());
  });
  for (std::size_t p = 0; p < replies.size(); ++p)
    if (replies[p] != replies[0])
      throw Error(Code::kInvalidArgument,
                  fmt::format("the arguments of process {} differ from those of process 0", p));
}

// Waits for the other processes at the end. All processes return the status of the first one.
int end_together(Coordinator& processes, int status) {
  const bool failed = status == kUsage || status == kFailure;
  const auto mine = static_cast<std::byte>(status);
  try {
    const Bytes reply =
        processes.broadcast("cairn: end", ByteView(&mine, 1), 0, failed ? kFarewell : kForever);
    return reply.empty() ? kFailure : std::to_integer<int>(reply[0]);
  } catch (const Error& e) {
    // The first process cannot know the error of this one, so this one prints it.
    if (processes.process_index() != 0)
      print_last_error(fmt::format("process {}", processes.process_index()));
    if (processes.process_index() == 0 && status != kFailure) print_error(e.message());
    return status == kGood ? kFailure : status;
  }
}

int run_together(std::unique_ptr<Coordinator> job_of_launcher, int argc, char** argv,
                 const std::function<int()>& run) {
  const std::shared_ptr<Coordinator> processes = std::move(job_of_launcher);
  const bool is_first = processes->process_index() == 0;
  if (!is_first) silence();
  MultiprocessingOptions all = shared_job();
  all.coordinator = processes;
  int status = kGood;
  try {
    check_same_command(all, argc, argv);
    if (is_shared_out(argc, argv)) shared_job() = all;
    if (is_first || is_shared_out(argc, argv)) status = run();
  } catch (const Error& e) {
    print_error(e.message());
    status = e.code() == Code::kInvalidArgument ? kUsage : kFailure;
  }
  status = end_together(*processes, status);
  shared_job().coordinator.reset();
  return status;
}

}  // namespace

const MultiprocessingOptions& job() { return shared_job(); }

int run_ranks(int argc, char** argv, const std::function<int()>& run) {
  const auto launcher = launched();
  if (!launcher) return run();
  std::unique_ptr<Coordinator> processes;
  try {
    processes = start_mpi(*launcher);
  } catch (const Error& e) {
    // A launcher ends all processes as soon as one has failed. The others wait, so that the first
    // process has time to print the reason.
    if (launcher->rank == 0)
      print_error(e.message());
    else
      std::this_thread::sleep_for(std::chrono::seconds(1));
    return kFailure;
  }
  if (processes->process_count() == 1) return run();
  return run_together(std::move(processes), argc, argv, run);
}

}  // namespace cairn::cli
