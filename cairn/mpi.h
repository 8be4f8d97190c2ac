// mpi.h -- the processes of a job that MPI has started, as a Coordinator. In a library of its own
// (CMake target cairn::mpi), so that programs without MPI need none.
#pragma once

#include <cairn/distributed.h>

#include <memory>
#include <optional>

namespace cairn {

// MPI for as long as it lives: begins it, with support for calls from any thread, unless somebody
// has already; ends it if it began it. Throws unavailable if MPI says no. MPI cannot begin twice in
// a process.
class MpiSession {
 public:
  MpiSession();
  MpiSession(const MpiSession&) = delete;
  MpiSession& operator=(const MpiSession&) = delete;
  ~MpiSession();

 private:
  bool ours_ = false;
};

struct MpiOptions {
  // Whose processes meet: MPI_Comm_c2f of a communicator, an integer with every MPI. None:
  // MPI_COMM_WORLD.
  std::optional<int> communicator = {};
  Coordinator::Timeout start_timeout = Coordinator::kDefaultTimeout;
  // kept as long as the coordinator lives, for who has no place for one
  std::shared_ptr<const MpiSession> session = nullptr;
};
// All processes of the communicator call it together; their ranks are their indices. Messages go
// through a duplicate of the communicator, so that they meet no others; a value has at most 2^31 -
// 2^21 bytes. Must end before MPI does, as it does with a session of its own. Where one process
// gives up a meeting at the very moment when the last one comes, another may get through it.
//
// Throws failed_precondition if MPI has not begun, is over, or was begun without support for
// threads (at least MPI_THREAD_SERIALIZED, and then nobody else may call MPI at the same time);
// unavailable if not all processes take part in time.
std::unique_ptr<Coordinator> mpi_coordinator(const MpiOptions& options = {});

}  // namespace cairn
