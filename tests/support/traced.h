// traced.h -- runs code in a child process and traces its system calls.
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
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

namespace cairn::testing {

// True for a system call that changes files, their names or timestamps, syncs a file, or is an
// fcntl.
inline bool touches_files(const __ptrace_syscall_info& call) {
  const auto number = static_cast<long>(call.entry.nr);
  if (number == SYS_openat) return (call.entry.args[2] & (O_CREAT | O_TRUNC)) != 0;
  static constexpr std::array kTouching = {
      SYS_write,    SYS_pwrite64,  SYS_writev,    SYS_pwritev,   SYS_pwritev2,
      SYS_rename,   SYS_renameat,  SYS_renameat2, SYS_unlink,    SYS_unlinkat,
      SYS_mkdir,    SYS_mkdirat,   SYS_rmdir,     SYS_ftruncate, SYS_fsync,
      SYS_link,     SYS_linkat,    SYS_symlink,   SYS_symlinkat, SYS_copy_file_range,
      SYS_sendfile, SYS_fdatasync, SYS_fallocate, SYS_utimensat, SYS_fcntl};
  return std::ranges::find(kTouching, number) != kTouching.end();
}

// A fork copies locks in their current state. If another thread is about to release a lock, that
// lock stays locked in the child for ever. So this waits until all other threads sleep: idle
// workers sleep and hold no locks.
inline void wait_until_other_threads_sleep() {
  const auto asleep = [](const std::filesystem::path& task) {
    if (task.filename() == std::to_string(getpid())) return true;
    std::ifstream in(task / "stat");
    const std::string stat((std::istreambuf_iterator<char>(in)), {});
    const auto name_end = stat.rfind(')');
    return name_end == std::string::npos || stat.substr(name_end, 3) == ") S";
  };
  while (!std::ranges::all_of(std::filesystem::directory_iterator("/proc/self/task"),
                              [&](const auto& t) { return asleep(t.path()); }))
    usleep(200);
}

// Starts `work` in a child that stops before its first step, and waits until it has stopped. The
// work must end the process.
template <class Work>
pid_t start_traced(Work work, int options) {
  wait_until_other_threads_sleep();
  const pid_t child = fork();
  if (child == 0) {
    ptrace(PTRACE_TRACEME, 0, nullptr, nullptr);
    raise(SIGSTOP);
    try {
      work();
    } catch (...) {  // must not return into the test, which would then continue in a second process
    }
    _exit(2);
  }
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(ptrace(PTRACE_SETOPTIONS, child, nullptr,
                   PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL | options),
            0);
  return child;
}

}  // namespace cairn::testing
