// ranks.h -- the processes that an MPI launcher (mpirun, srun) has started with one command line:
// who works, who speaks, and how all end.
#pragma once

#include <cairn/distributed.h>

#include <functional>

namespace cairn::cli {

// The processes that share out the work of this command; alone, unless a launcher has started
// several and the command is one that can be shared out.
const MultiprocessingOptions& job();

// Runs the command in every process that has a part in it: of convert, diff, reshard and verify
// all, of others the first alone. Only the first speaks; all return its status. Where no launcher
// is seen, or CAIRN_MPI=off, it is just `run`.
int run_ranks(int argc, char** argv, const std::function<int()>& run);

}  // namespace cairn::cli
