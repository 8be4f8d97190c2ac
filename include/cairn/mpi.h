// mpi.h -- a Coordinator for the processes of a job started by MPI. It is in a library of its own
// (CMake target cairn::mpi), so that programs without MPI need none.
#pragma once

#include <cairn/distributed.h>

#include <memory>
#include <optional>
#include <string>

#pragma GCC visibility push(default)
namespace cairn::inline v0 {

// The MPI library that runs, on one line: "Open MPI v4.1.4, ...". Works before MPI is initialised.
std::string mpi_library_version();

// Initialises MPI, with support for calls from any thread, unless the program has already done so.
// The destructor finalises MPI if the constructor initialised it. Throws unavailable if MPI reports
// an error. MPI cannot be initialised twice in a process.
class MpiSession {
 public:
  MpiSession();
  MpiSession(const MpiSession&) = delete;
  MpiSession& operator=(const MpiSession&) = delete;
  ~MpiSession();

 private:
  bool ours_ = false;
};

// Options of mpi_coordinator.
struct MpiOptions {
  // The communicator of the processes: the result of MPI_Comm_c2f, which is an integer with every
  // MPI. None: MPI_COMM_WORLD.
  std::optional<int> communicator = {};
  // timeout of the call of mpi_coordinator
  Coordinator::Timeout start_timeout = Coordinator::kDefaultTimeout;
  // Session that the coordinator keeps alive, for callers with no better place for it.
  std::shared_ptr<const MpiSession> session = nullptr;
};
// Collective: all processes of the communicator call it together; their ranks are their indices.
// Messages use a duplicate of the communicator, so that they do not interfere with others. A value
// has at most 2^31 - 2^21 bytes. Destroy the coordinator before MPI is finalised; with a session of
// its own this is ensured. If one process gives up a collective at the moment when the last one
// joins, another process may still complete it.
//
// Throws failed_precondition if MPI is not initialised, is finalised, or lacks thread support (at
// least MPI_THREAD_SERIALIZED, with which no other thread may call MPI at the same time);
// unavailable if not all processes take part before the timeout.
std::unique_ptr<Coordinator> mpi_coordinator(const MpiOptions& options = {});

}  // namespace cairn::inline v0
#pragma GCC visibility pop
