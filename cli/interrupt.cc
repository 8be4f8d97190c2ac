// interrupt.cc -- a thread that waits for signals.
#include "interrupt.h"

#include <cairn/io/temporaries.h>

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <thread>

namespace cairn::cli {
namespace {

std::atomic<bool> ending = false;

}  // namespace

void wait_if_ending() {
  while (ending) pause();
}

void end_cleanly_on_signals() {
  sigset_t signals;
  sigemptyset(&signals);
  bool any = false;
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction now {};
    if (sigaction(number, nullptr, &now) != 0 || now.sa_handler == SIG_IGN) continue;
    sigaddset(&signals, number);
    any = true;
  }
  // Threads inherit the signal mask, so only the thread below receives these signals.
  if (!any || pthread_sigmask(SIG_BLOCK, &signals, nullptr) != 0) return;
  std::thread([signals] {
    int number = 0;
    if (sigwait(&signals, &number) != 0) return;
    ending = true;
    remove_temporaries();
    _exit(128 + number);
  }).detach();
}

}  // namespace cairn::cli
