// module.cc -- MPI support for the command, in a library that is loaded only if a launcher has
// started the command.
#include "module.h"

#include <cairn/mpi.h>

#include <string>
#include <string_view>

extern "C" __attribute__((visibility("default"))) void cairn_start_mpi(
    const char* version, std::unique_ptr<cairn::Coordinator>& job) {
  if (std::string_view(version) != CAIRN_VERSION)
    throw cairn::Error(cairn::Code::kFailedPrecondition,
                       std::string("the module for MPI has version ") + CAIRN_VERSION +
                           ", but the command has version " + version);
  job = cairn::mpi_coordinator({.session = std::make_shared<const cairn::MpiSession>()});
}

extern "C" __attribute__((visibility("default"))) void cairn_mpi_library(std::string& text) {
  text = cairn::mpi_library_version();
}
