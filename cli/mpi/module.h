// module.h -- the one function of the module that the command loads when an MPI launcher has
// started it. Nothing else of the command sees MPI, and nothing is loaded where there is no
// launcher.
#pragma once

#include <cairn/distributed.h>

#include <memory>

namespace cairn::cli {

inline constexpr const char* kStartFunction = "cairn_start_mpi";
// Begins MPI and fills `job` with this process's end of the launcher's job; MPI ends when it is
// destroyed. `version` is the command's own: what does not match is refused. Throws Error.
using StartFunction = void(const char* version, std::unique_ptr<Coordinator>& job);

}  // namespace cairn::cli
