// ranks.h -- the processes that an MPI launcher (mpirun, srun) has started with one command line:
// which of them work, which one prints, and how they all end.
#pragma once

#include <cairn/distributed.h>

#include <functional>

namespace cairn::cli {

// The processes that share the work of this command. This process is the only one unless a launcher
// has started several and the command can share its work.
const MultiprocessingOptions& job();

// Runs the command in every process that takes part: in all processes for convert, diff, reshard
// and verify, and only in the first process for other commands. Only the first process prints, and
// all return its status. If no launcher is detected, or if CAIRN_MPI=off, this just calls `run`.
int run_ranks(int argc, char** argv, const std::function<int()>& run);

}  // namespace cairn::cli
