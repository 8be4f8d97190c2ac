// traced.h -- runs code in a child process and traces some of its system calls. A filter in the
// kernel chooses them (seccomp), so that the others do not wait for the tracer.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <span>
#include <string>
#include <vector>

namespace cairn::testing {

// System calls that change files, their names or timestamps, sync a file, or are an fcntl. So is an
// openat that may create or truncate.
inline constexpr std::array kTouching = {
    SYS_write,    SYS_pwrite64,  SYS_writev,    SYS_pwritev,   SYS_pwritev2,
    SYS_rename,   SYS_renameat,  SYS_renameat2, SYS_unlink,    SYS_unlinkat,
    SYS_mkdir,    SYS_mkdirat,   SYS_rmdir,     SYS_ftruncate, SYS_fsync,
    SYS_link,     SYS_linkat,    SYS_symlink,   SYS_symlinkat, SYS_copy_file_range,
    SYS_sendfile, SYS_fdatasync, SYS_fallocate, SYS_utimensat, SYS_fcntl};
inline constexpr std::uint32_t kChangingOpen = O_CREAT | O_TRUNC;

inline bool touches_files(const __ptrace_syscall_info& call) {
  const auto number = static_cast<long>(call.seccomp.nr);
  return number == SYS_openat ? (call.seccomp.args[2] & kChangingOpen) != 0
                              : std::ranges::find(kTouching, number) != kTouching.end();
}

// From now on, this process stops for its tracer before each call of kTouching, each openat that
// may change files, and each call of `also`.
inline void stop_before_calls(std::span<const long> also) {
  constexpr auto kNumber = static_cast<std::uint32_t>(offsetof(seccomp_data, nr));
  constexpr auto kOpenFlags = static_cast<std::uint32_t>(offsetof(seccomp_data, args[2]));
  constexpr std::uint16_t kLoad = BPF_LD | BPF_W | BPF_ABS;
  constexpr std::uint16_t kIfEqual = BPF_JMP | BPF_JEQ | BPF_K;
  constexpr std::uint16_t kIfAnyBit = BPF_JMP | BPF_JSET | BPF_K;
  constexpr sock_filter kStop = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRACE);
  // The last two numbers of a jump are the instructions skipped if the condition holds, and if not.
  std::vector<sock_filter> program = {BPF_STMT(kLoad, kNumber)};
  const auto add = [&](long call) {
    program.push_back(BPF_JUMP(kIfEqual, static_cast<std::uint32_t>(call), 0, 1));
    program.push_back(kStop);
  };
  std::ranges::for_each(kTouching, add);
  std::ranges::for_each(also, add);
  program.insert(program.end(),
                 {BPF_JUMP(kIfEqual, std::uint32_t{SYS_openat}, 0, 3), BPF_STMT(kLoad, kOpenFlags),
                  BPF_JUMP(kIfAnyBit, kChangingOpen, 0, 1), kStop,
                  BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)});
  const sock_fprog filter{static_cast<std::uint16_t>(program.size()), program.data()};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
      prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) != 0)
    _exit(3);
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
// work must end the process. All its threads stop before the calls of stop_before_calls().
template <class Work>
pid_t start_traced(Work work, std::span<const long> also = {}) {
  wait_until_other_threads_sleep();
  const pid_t child = fork();
  if (child == 0) {
    ptrace(PTRACE_TRACEME, 0, nullptr, nullptr);
    raise(SIGSTOP);
    stop_before_calls(also);
    try {
      work();
    } catch (...) {  // must not return into the test, which would then continue in a second process
    }
    _exit(2);
  }
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(ptrace(PTRACE_SETOPTIONS, child, nullptr,
                   PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL | PTRACE_O_TRACECLONE |
                       PTRACE_O_TRACESECCOMP),
            0);
  return child;
}

// Whether a thread has stopped before a call of stop_before_calls().
inline bool is_before_a_call(int status) {
  return status >> 8 == (SIGTRAP | PTRACE_EVENT_SECCOMP << 8);
}

// The call that a thread has stopped before: its members are those of `seccomp`.
inline __ptrace_syscall_info call_of(pid_t thread) {
  __ptrace_syscall_info call{};
  ptrace(PTRACE_GET_SYSCALL_INFO, thread, sizeof(call), &call);
  return call;
}

}  // namespace cairn::testing
