// kill_at.h -- runs something in a child process that is killed at a chosen system call, as a crash would.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

namespace cairn::testing {

// True for a system call that changes files, or when they change.
inline bool touches_files(const __ptrace_syscall_info& call) {
  const auto number = static_cast<long>(call.entry.nr);
  if (number == SYS_openat) return (call.entry.args[2] & (O_CREAT | O_TRUNC)) != 0;
  static constexpr std::array kTouching = {SYS_write,     SYS_pwrite64,  SYS_writev,    SYS_pwritev,   SYS_pwritev2,
                                           SYS_rename,    SYS_renameat,  SYS_renameat2, SYS_unlink,    SYS_unlinkat,
                                           SYS_mkdir,     SYS_mkdirat,   SYS_rmdir,     SYS_ftruncate, SYS_fsync,
                                           SYS_fdatasync, SYS_fallocate, SYS_utimensat, SYS_fcntl};
  return std::ranges::find(kTouching, number) != kTouching.end();
}

// A fork copies locks as they are: one that another thread is about to release would stay locked in the child for ever. So
// this waits until all other threads sleep, as idle workers do, who hold none.
inline void wait_until_other_threads_sleep() {
  const auto asleep = [](const std::filesystem::path& task) {
    if (task.filename() == std::to_string(getpid())) return true;
    std::ifstream in(task / "stat");
    const std::string stat((std::istreambuf_iterator<char>(in)), {});
    const auto name_end = stat.rfind(')');
    return name_end == std::string::npos || stat.substr(name_end, 3) == ") S";
  };
  while (!std::ranges::all_of(std::filesystem::directory_iterator("/proc/self/task"), [&](const auto& t) { return asleep(t.path()); }))
    usleep(200);
}

enum class Ended { kKilled, kWell, kBadly };

// Runs `work` in a child and kills it as it enters its n-th (from 0) such call on its main thread, so that the call does not
// happen. kWell: it came to its end before; kBadly: it threw.
template <class Work>
Ended run_and_kill_at(int n, Work work) {
  wait_until_other_threads_sleep();
  const pid_t child = fork();
  if (child == 0) {
    ptrace(PTRACE_TRACEME, 0, nullptr, nullptr);
    raise(SIGSTOP);
    try {
      work();
    } catch (const std::exception&) {
      _exit(1);
    }
    _exit(0);
  }
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(ptrace(PTRACE_SETOPTIONS, child, nullptr, PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL), 0);
  while (true) {
    ptrace(PTRACE_SYSCALL, child, nullptr, nullptr);
    if (waitpid(child, &status, 0) != child) return Ended::kBadly;
    if (WIFEXITED(status)) return WEXITSTATUS(status) == 0 ? Ended::kWell : Ended::kBadly;
    if (WIFSIGNALED(status)) return Ended::kBadly;
    __ptrace_syscall_info call{};
    ptrace(PTRACE_GET_SYSCALL_INFO, child, sizeof(call), &call);
    if (call.op != PTRACE_SYSCALL_INFO_ENTRY || !touches_files(call) || n-- > 0) continue;
    kill(child, SIGKILL);
    waitpid(child, &status, 0);
    return Ended::kKilled;
  }
}

}  // namespace cairn::testing
