// multiprocess_mpi_tool.cc -- one of the processes that mpirun has started: mpirun -n COUNT
// multiprocess_mpi_tool JOBS OUT (see multiprocess_jobs.h).
#include <cairn/error.h>
#include <cairn/mpi.h>

#include <iostream>

#include "tests/interop/tools/multiprocess_jobs.h"

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  try {
    const cairn::MpiSession session;
    cairn::testing::run_multiprocess_jobs(cairn::mpi_coordinator(), argv[1], argv[2]);
  } catch (const std::exception& e) {
    std::cerr << e.what() << "\n";
    return 1;
  }
  return 0;
}
