#include "launch/stop_signal.h"

#include <atomic>
#include <exception>

#include "core/check.h"
#include "core/logging.h"

namespace shoal::launch {
namespace {

std::atomic<bool> g_listening{false};
std::atomic<int> g_received{0};
static_assert(std::atomic<int>::is_always_lock_free, "a signal handler may touch nothing else");

extern "C" void note_signal(int signal) {
  int none = 0;
  g_received.compare_exchange_strong(none, signal);
}

struct sigaction action_for(int signal) {
  struct sigaction action {};
  action.sa_handler = note_signal;
  sigemptyset(&action.sa_mask);
  // Calls of the system that a signal interrupts go on, so no other code needs to know of this.
  action.sa_flags = SA_RESTART;
  if (signal == SIGINT) action.sa_flags |= static_cast<int>(SA_RESETHAND);
  return action;
}

}  // namespace

StopSignal::StopSignal(Afterwards afterwards)
    : afterwards_(afterwards), exceptions_at_start_(std::uncaught_exceptions()) {
  SHOAL_ASSERT(!g_listening.exchange(true));
  g_received = 0;
  for (std::size_t i = 0; i < kSignals.size(); ++i) {
    const struct sigaction action = action_for(kSignals[i]);
    sigaction(kSignals[i], &action, &before_[i]);
  }
}

int StopSignal::take_back() const {
  int taken = 0;
  for (const int signal : kSignals) {
    struct sigaction now {};
    sigaction(signal, nullptr, &now);
    if (now.sa_handler == note_signal) continue;
    if (signal == SIGINT && now.sa_handler == SIG_DFL) continue;  // after the first Ctrl-C, as it should be
    log::warning("a library has taken {} over; it asks this run to stop again", signal_name(signal));
    const struct sigaction action = action_for(signal);
    sigaction(signal, &action, nullptr);
    ++taken;
  }
  return taken;
}

StopSignal::~StopSignal() {
  const bool ignores = afterwards_ == Afterwards::ignored && std::uncaught_exceptions() == exceptions_at_start_;
  struct sigaction nothing {};
  nothing.sa_handler = SIG_IGN;
  for (std::size_t i = 0; i < kSignals.size(); ++i)
    sigaction(kSignals[i], ignores && kSignals[i] != SIGINT ? &nothing : &before_[i], nullptr);
  g_listening = false;
}

int StopSignal::received() const noexcept { return g_received; }

const char* signal_name(int signal) noexcept {
  switch (signal) {
    case SIGTERM: return "SIGTERM";
    case SIGINT: return "SIGINT";
    case SIGUSR1: return "SIGUSR1";
    case SIGUSR2: return "SIGUSR2";
    default: return "signal";
  }
}

}  // namespace shoal::launch
