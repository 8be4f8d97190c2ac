// load.h -- finds the module for MPI and loads it; a static program has none.
#pragma once

#include "module.h"

#include <cairn/error.h>

#include <functional>
#include <string>

namespace cairn::cli {

// The module's function that starts MPI. Throws what refuse(why) returns if there is none.
StartFunction* load_mpi_module(const std::function<Error(const std::string& why)>& refuse);

}  // namespace cairn::cli
