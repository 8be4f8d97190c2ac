// mpi_contract.cc -- the contract of coordinators under MPI: every process of the launcher runs all
// of it.
#include <cairn/mpi.h>
#include <mpi.h>
#include <sys/mman.h>

#include <thread>

#include "tests/distributed/coordinator_contract.h"

namespace cairn {
namespace {

using testing::ContractPart;
using testing::FailsWith;
using testing::kLong;
using testing::text_of;

class MpiProcesses : public ::testing::TestWithParam<ContractPart> {};
INSTANTIATE_TEST_SUITE_P(Contract, MpiProcesses,
                         ::testing::ValuesIn(testing::coordinator_contract()),
                         [](const auto& of) { return of.param.name; });

TEST_P(MpiProcesses, KeepTheContract) {
  const auto job = mpi_coordinator();
  GetParam().run(*job);
}

TEST(MpiCoordinator, HasTheProcessesOfItsCommunicator) {
  int rank = 0;
  int size = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  const auto job = mpi_coordinator();
  EXPECT_EQ(job->process_index(), static_cast<std::size_t>(rank));
  EXPECT_EQ(job->process_count(), static_cast<std::size_t>(size));

  MPI_Comm half = MPI_COMM_NULL;
  // odd and even ranks apart, in the reverse order
  MPI_Comm_split(MPI_COMM_WORLD, rank % 2, -rank, &half);
  {
    const auto part = mpi_coordinator({.communicator = MPI_Comm_c2f(half)});
    EXPECT_EQ(part->process_count(), static_cast<std::size_t>((size + 1 - rank % 2) / 2));
    const std::vector<Bytes> ranks =
        part->all_gather("ranks", as_bytes(std::to_string(rank)), kLong);
    EXPECT_EQ(text_of(ranks.back()), std::to_string(rank % 2));
  }
  MPI_Comm_free(&half);
}

TEST(MpiCoordinator, ATimeOutNamesWhoIsMissing) {
  const auto job = mpi_coordinator();
  if (job->process_count() < 4) return;
  if (job->process_index() == 1) {
    EXPECT_THAT(
        [&] { job->barrier("save", testing::kShort); },
        FailsWith(
            Code::kUnavailable,
            "'save': processes 0, 2, 3 did not arrive before process 1 timed out after 0.02 s"));
  }
  job->barrier("end", kLong);
}

TEST(MpiCoordinator, AProcessThatEndsIsNotWaitedFor) {
  const auto job = mpi_coordinator();
  if (job->process_count() == 1) return;
  job->barrier("begin", kLong);
  if (job->process_index() == 1) return;
  EXPECT_THAT([&] { job->barrier("b", kLong); },
              FailsWith(Code::kUnavailable, "'b': process 1 ended before arriving"));
}

// Who cannot come says so in place of coming.
TEST(MpiCoordinator, ATooLongValueFailsAllAtOnce) {
  const auto job = mpi_coordinator();
  if (job->process_count() == 1) return;
  if (job->process_index() == 0) {
    const std::size_t size = job->max_value_bytes() + 1;
    void* untouched =
        mmap(nullptr, size, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    ASSERT_NE(untouched, MAP_FAILED);
    EXPECT_THAT(
        [&] {
          job->all_gather("g", {static_cast<const std::byte*>(untouched), size}, kLong);
        },
        FailsWith(Code::kInvalidArgument,
                  "'g': a value of 2145386497 bytes exceeds the size limit of an MPI message"));
    munmap(untouched, size);
  } else {
    EXPECT_THAT(
        [&] { job->all_gather("g", {}, kLong); },
        FailsWith(Code::kUnavailable, "'g': process 0 aborted: 'g': a value of 2145386497 bytes"));
  }
  EXPECT_EQ(job->all_gather("g", as_bytes("x"), kLong).size(), job->process_count());
}

TEST(MpiCoordinator, DoesNotWaitForProcessesThatNeverStart) {
  int rank = 0;
  int size = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (size == 1) return;
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 0) {
    EXPECT_THAT([] { mpi_coordinator({.start_timeout = std::chrono::milliseconds(300)}); },
                FailsWith(Code::kUnavailable,
                          "not all processes of the communicator arrived within 0.3 s"));
  }
  MPI_Barrier(MPI_COMM_WORLD);
  // MPI pairs the duplications of a communicator in their order: the others come after all, to
  // nobody.
  if (rank != 0) (void)mpi_coordinator();
  MPI_Barrier(MPI_COMM_WORLD);
}

}  // namespace
}  // namespace cairn

int main(int argc, char** argv) {
  ::testing::InitGoogleMock(&argc, argv);
  const cairn::MpiSession session;
  return RUN_ALL_TESTS();
}
