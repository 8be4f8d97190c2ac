// load.h -- finds the module for MPI and loads it; a static program has none.
#pragma once

#include "module.h"

#include <cairn/error.h>

#include <functional>
#include <string>

namespace cairn::cli {

// The module's function that starts MPI. Throws what refuse(why) returns if there is none.
StartFunction* load_mpi_module(const std::function<Error(const std::string& why)>& refuse);
// The version of the MPI library that the module uses. Loads it, but does not start MPI. Throws
// unavailable if there is no module or it cannot be loaded.
std::string mpi_module_library();

}  // namespace cairn::cli
