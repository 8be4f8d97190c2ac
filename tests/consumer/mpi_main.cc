#include <cairn/mpi.h>

#include <cstdio>

int main() {
  const cairn::MpiSession session;
  const auto job = cairn::mpi_coordinator();
  job->barrier("hello", cairn::Coordinator::kDefaultTimeout);
  std::printf("%zu of %zu\n", job->process_index(), job->process_count());
}
