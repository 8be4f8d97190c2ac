// multiprocess_files_tool.cc -- one of several processes that meet through files:
// multiprocess_files_tool JOBS OUT FOLDER INDEX COUNT (see multiprocess_jobs.h).
#include <cairn/error.h>

#include <iostream>
#include <string>

#include "tests/interop/tools/multiprocess_jobs.h"

int main(int argc, char** argv) {
  if (argc != 6) return 2;
  try {
    const cairn::FilesJob job{.directory = argv[3],
                              .process_index = std::stoul(argv[4]),
                              .process_count = std::stoul(argv[5])};
    cairn::testing::run_multiprocess_jobs(cairn::files_coordinator(job), argv[1], argv[2]);
  } catch (const std::exception& e) {
    std::cerr << e.what() << "\n";
    return 1;
  }
  return 0;
}
