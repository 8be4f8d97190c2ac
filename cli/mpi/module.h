// module.h -- the functions of the module that the command loads when an MPI launcher has started
// it. The rest of the command does not depend on MPI, and without a launcher the command
// loads no MPI library.
#pragma once

#include <cairn/distributed.h>

#include <memory>
#include <string>

namespace cairn::cli {

inline constexpr const char* kStartFunction = "cairn_start_mpi";
// Starts MPI and fills `job` with this process's coordinator for the launcher's job. MPI ends when
// `job` is destroyed. `version` is the command's version; the function rejects a version other than
// the module's own. Throws Error.
using StartFunction = void(const char* version, std::unique_ptr<Coordinator>& job);

inline constexpr const char* kLibraryFunction = "cairn_mpi_library";
// Sets `text` to the version of the MPI library, without starting MPI.
using LibraryFunction = void(std::string& text);

}  // namespace cairn::cli
