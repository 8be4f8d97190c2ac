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
// that touches files (see traced.h), so that the call does not happen. kWell: the work ended before
// that call; kBadly: it threw. Meanwhile `beside` runs in this process, on a thread that starts
// after the child: a fork while other threads work may leave the child with locks that nobody
// releases.
template <class Work>
Ended run_and_kill_at(int n, Work work, const std::function<void()>& beside = {}) {
  const pid_t child = start_traced([&] {
    try {
      work();
    } catch (const std::exception&) {
      _exit(1);
    }
    _exit(0);
  });
  const std::jthread other = beside ? std::jthread(beside) : std::jthread();  // joined on return
  int status = 0;
  ptrace(PTRACE_CONT, child, nullptr, nullptr);
  bool killed = false;
  while (true) {
    const pid_t thread = waitpid(-1, &status, __WALL);
    if (thread < 0) return Ended::kBadly;
    if (WIFEXITED(status) || WIFSIGNALED(status)) {
      if (thread != child) continue;
      if (killed) return Ended::kKilled;
      return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? Ended::kWell : Ended::kBadly;
    }
    if (!killed && is_before_a_call(status) && n-- <= 0) {
      killed = true;
      kill(child, SIGKILL);
      continue;
    }
    ptrace(PTRACE_CONT, thread, nullptr, nullptr);
  }
}

}  // namespace cairn::testing
