// single_replica_crash_test.cc -- processes of their own that share nothing but a folder restore
// what one replica reads; one of them is killed at each of its collectives: the others have all, or
// are told who is gone. (ThreadSanitizer leaves this file out: its children start threads.)
#include <cairn/orbax/checkpointer.h>
#include <gmock/gmock.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <iostream>

#include "tests/orbax/single_replica.h"
#include "tests/support/temp_dir.h"

namespace cairn {
namespace {

using testing::expect_shards;
using testing::Replicated;
using testing::TempDir;

constexpr int kWell = 0, kNamed = 1, kBadly = 2;

// Starts a process that ends with the status that `part` returns, or badly.
template <class Part>
pid_t start(Part part) {
  const pid_t child = fork();
  if (child != 0) return child;
  int status = kBadly;
  try {
    status = part();
  } catch (const std::exception& e) {
    ADD_FAILURE() << e.what();
  }
  std::fflush(nullptr);
  std::cout.flush();
  _exit(::testing::Test::HasFailure() ? kBadly : status);
}

// The status; -1 of one that was killed.
int ended(pid_t child) {
  int status = 0;
  if (waitpid(child, &status, 0) != child) return kBadly;
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

// A coordinator whose process is killed as it comes to its n-th collective.
class Dying final : public Coordinator {
 public:
  Dying(std::unique_ptr<Coordinator> of, int collectives)
      : of_(std::move(of)), left_(collectives) {}
  [[nodiscard]] std::size_t process_index() const override { return of_->process_index(); }
  [[nodiscard]] std::size_t process_count() const override { return of_->process_count(); }
  [[nodiscard]] std::uint64_t max_value_bytes() const override { return of_->max_value_bytes(); }
  void barrier(std::string_view name, Timeout timeout) override {
    of_->barrier(come(name), timeout);
  }
  Bytes broadcast(std::string_view name, ByteView value, std::size_t root,
                  Timeout timeout) override {
    return of_->broadcast(come(name), value, root, timeout);
  }
  std::vector<Bytes> all_gather(std::string_view name, ByteView value, Timeout timeout) override {
    return of_->all_gather(come(name), value, timeout);
  }
  std::vector<Bytes> exchange(std::string_view name, ByteView value, const Delivery& between,
                              Timeout timeout) override {
    return of_->exchange(come(name), value, between, timeout);
  }

 private:
  std::string_view come(std::string_view name) {
    if (left_-- == 0) raise(SIGKILL);
    return name;
  }

  std::unique_ptr<Coordinator> of_;
  int left_;
};

class SingleReplicaProcesses : public ::testing::TestWithParam<std::size_t> {};
// One that reads, and one that does not.
INSTANTIATE_TEST_SUITE_P(Killed, SingleReplicaProcesses, ::testing::Values(2, 1));

// covers: errors.single_replica
TEST_P(SingleReplicaProcesses, HaveAllOrAreToldWhoIsGone) {
  const std::size_t victim = GetParam();
  const TempDir dir = TempDir::in_memory();
  const Replicated model(2);
  ASSERT_EQ(ended(start([&] {
              Checkpointer().save(dir / "a", {.item = model.tree()});
              return kWell;
            })),
            kWell);
  int kills = 0;
  for (int n = 0; n < 200; ++n) {
    SCOPED_TRACE(n);
    std::vector<pid_t> children;
    for (std::size_t p = 0; p < 4; ++p)
      children.push_back(start([&] {
        // Values go in messages that hold but a part of them.
        FilesJob job{.directory = dir / ("job" + std::to_string(n)),
                     .process_index = p,
                     .process_count = 4,
                     .max_message_bytes = 3000};
        job.join_timeout = std::chrono::seconds(120);
        const auto mine = std::make_shared<Dying>(files_coordinator(job), p == victim ? n : -1);
        try {
          expect_shards(Checkpointer(model.options(mine, 1))
                            .restore(dir / "a", {.restore_args = model.args()}),
                        model, p);
          return kWell;
        } catch (const Error& e) {
          EXPECT_EQ(e.code(), Code::kUnavailable) << e.message();
          EXPECT_THAT(e.message(), ::testing::HasSubstr("process " + std::to_string(victim) +
                                                        " ended before arriving"));
          return kNamed;
        }
      }));
    std::vector<int> outcomes;
    for (const pid_t child : children) outcomes.push_back(ended(child));
    const bool killed = outcomes[victim] == -1;
    kills += killed ? 1 : 0;
    for (std::size_t p = 0; p < 4; ++p) {
      if (p != victim) {
        EXPECT_EQ(outcomes[p], killed ? kNamed : kWell) << "process " << p;
      }
    }
    if (!killed || ::testing::Test::HasFailure()) break;
  }
  // Six steps, and more than one message.
  EXPECT_GT(kills, 8);
}

}  // namespace
}  // namespace cairn
