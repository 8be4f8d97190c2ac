// kill_at.h -- runs code in a child process and kills it at a chosen system call, to simulate a
// crash.
#pragma once

#include <exception>
#include <functional>
#include <thread>

#include "tests/support/traced.h"

namespace cairn::testing {

enum class Ended { kKilled, kWell, kBadly };

// Runs `work` in a child and kills the child when one of its threads enters the n-th (from 0) call
// for which touches_files() is true, so that the call does not happen. kWell: the work ended before
// that call; kBadly: it threw. Meanwhile `beside` runs in this process, on a thread that starts
// after the child: a fork while other threads work may leave the child with locks that nobody
// releases.
template <class Work>
Ended run_and_kill_at(int n, Work work, const std::function<void()>& beside = {}) {
  const pid_t child = start_traced(
      [&] {
        try {
          work();
        } catch (const std::exception&) {
          _exit(1);
        }
        _exit(0);
      },
      PTRACE_O_TRACECLONE);
  const std::jthread other = beside ? std::jthread(beside) : std::jthread();  // joined on return
  int status = 0;
  ptrace(PTRACE_SYSCALL, child, nullptr, nullptr);
  bool killed = false;
  while (true) {
    const pid_t thread = waitpid(-1, &status, __WALL);
    if (thread < 0) return Ended::kBadly;
    if (WIFEXITED(status) || WIFSIGNALED(status)) {
      if (thread != child) continue;
      if (killed) return Ended::kKilled;
      return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? Ended::kWell : Ended::kBadly;
    }
    __ptrace_syscall_info call{};
    const bool at_call = WSTOPSIG(status) == (SIGTRAP | 0x80);
    if (at_call) ptrace(PTRACE_GET_SYSCALL_INFO, thread, sizeof(call), &call);
    if (!killed && at_call && call.op == PTRACE_SYSCALL_INFO_ENTRY && touches_files(call) &&
        n-- <= 0) {
      killed = true;
      kill(child, SIGKILL);
      continue;
    }
    ptrace(PTRACE_SYSCALL, thread, nullptr, nullptr);
  }
}

}  // namespace cairn::testing
