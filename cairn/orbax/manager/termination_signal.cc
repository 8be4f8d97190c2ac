// termination_signal.cc -- a signal handler that sets a flag.
#include <cairn/checkpoint_manager.h>

#include <cairn/base/errors.h>

#include <array>
#include <atomic>

namespace cairn::inline v0 {
namespace {

// By number of the signal: whether it has arrived, and whether an object notes it.
std::array<std::atomic<bool>, NSIG> g_received{};
std::array<std::atomic<bool>, NSIG> g_noted{};
static_assert(std::atomic<bool>::is_always_lock_free, "a signal handler may use nothing else");

void note(int signal) { g_received.at(static_cast<std::size_t>(signal)) = true; }

std::size_t checked(int signal) {
  if (signal <= 0 || signal >= NSIG || signal == SIGKILL || signal == SIGSTOP)
    invalid_argument("signal " + std::to_string(signal) + " cannot be caught");
  return static_cast<std::size_t>(signal);
}

}  // namespace

TerminationSignal::TerminationSignal(int signal) : signal_(signal) {
  const std::size_t number = checked(signal);
  if (g_noted.at(number).exchange(true))
    throw Error(Code::kFailedPrecondition,
                "another TerminationSignal notes signal " + std::to_string(signal));
  g_received.at(number) = false;
  struct sigaction action {};
  action.sa_handler = note;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  auto before = std::make_shared<struct sigaction>();
  if (sigaction(signal, &action, before.get()) != 0) {
    g_noted.at(number) = false;
    invalid_argument("signal " + std::to_string(signal) + " cannot be caught");
  }
  before_ = std::move(before);
}

TerminationSignal::~TerminationSignal() {
  sigaction(signal_, static_cast<const struct sigaction*>(before_.get()), nullptr);
  g_noted.at(static_cast<std::size_t>(signal_)) = false;
}

bool TerminationSignal::received() const {
  return g_received.at(static_cast<std::size_t>(signal_));
}

std::function<bool(std::int64_t)> TerminationSignal::preemption_check() const {
  return [number = static_cast<std::size_t>(signal_)](std::int64_t) {
    return g_received.at(number).load();
  };
}

}  // namespace cairn::inline v0
