// mpi.cc -- a static program has no loader, and MPI has plug-ins.
#include "mpi/load.h"

namespace cairn::cli {

StartFunction* load_mpi_module(const std::function<Error(const std::string& why)>& refuse) {
  throw refuse("it is a static program, which cannot load MPI");
}

std::string mpi_module_library() {
  throw Error(Code::kUnavailable, "it is a static program, which cannot load MPI");
}

}  // namespace cairn::cli
