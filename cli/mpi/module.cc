// module.cc -- MPI for the command, in a library that is loaded only where a launcher has started it.
#include "module.h"

#include <cairn/mpi.h>

#include <string_view>
#include <utility>

namespace cairn::cli {
namespace {

// The processes of the launcher, and MPI for as long as they meet.
class LaunchedJob final : public Coordinator {
 public:
  [[nodiscard]] std::size_t process_index() const override { return job_->process_index(); }
  [[nodiscard]] std::size_t process_count() const override { return job_->process_count(); }
  [[nodiscard]] std::uint64_t max_value_bytes() const override { return job_->max_value_bytes(); }
  void barrier(std::string_view name, Timeout timeout) override { job_->barrier(name, timeout); }
  Bytes broadcast(std::string_view name, ByteView value, std::size_t root, Timeout timeout) override {
    return job_->broadcast(name, value, root, timeout);
  }
  std::vector<Bytes> all_gather(std::string_view name, ByteView value, Timeout timeout) override {
    return job_->all_gather(name, value, timeout);
  }
  std::vector<Bytes> deliver(std::string_view name, ByteView value, const Delivery& between, Timeout timeout) override {
    return job_->deliver(name, value, between, timeout);
  }

 private:
  MpiSession session_;
  std::unique_ptr<Coordinator> job_ = mpi_coordinator();
};

}  // namespace
}  // namespace cairn::cli

extern "C" __attribute__((visibility("default"))) void cairn_start_mpi(const char* version, std::unique_ptr<cairn::Coordinator>& job) {
  if (std::string_view(version) != CAIRN_VERSION)
    throw cairn::Error(cairn::Code::kFailedPrecondition,
                       std::string("the module for MPI is of version ") + CAIRN_VERSION + ", the command of " + version);
  job = std::make_unique<cairn::cli::LaunchedJob>();
}
