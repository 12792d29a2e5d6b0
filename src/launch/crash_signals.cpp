#include "launch/crash_signals.h"

#include <signal.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <string>

#include "core/logging.h"
#include "launch/first_failure.h"
#include "launch/signal_safe_text.h"

namespace shoal::launch {
namespace {

struct Crash {
  int signal;
  const char* name;
};
constexpr std::array<Crash, 5> kCrashes{
    {{SIGSEGV, "SIGSEGV (an address that is not there)"},
     {SIGBUS, "SIGBUS (a page that cannot be had: a file was cut, or memory failed)"},
     {SIGFPE, "SIGFPE (a division by zero, say)"},
     {SIGILL, "SIGILL (an instruction that this processor does not know)"},
     {SIGABRT, "SIGABRT (abort())"}}};
std::array<struct sigaction, kCrashes.size()> g_before{};
std::terminate_handler g_terminate_before = nullptr;
std::atomic<bool> g_recorded{false};
constexpr int kSignalled = 128;  // as shells count

// The stack of the main thread may be what has run out.
alignas(16) std::array<std::byte, 64 * 1024> g_stack;

extern "C" void note_crash(int signal, siginfo_t* info, void*) {
  for (std::size_t i = 0; i < kCrashes.size(); ++i) {
    if (kCrashes[i].signal != signal) continue;
    sigaction(signal, &g_before[i], nullptr);
    if (g_recorded.exchange(true)) break;
    SignalSafeText<256> reason;
    reason << "ended by " << kCrashes[i].name;
    if (info->si_code <= 0 && info->si_pid != getpid()) reason << ", sent by process " << std::int64_t{info->si_pid};
    reason << std::string_view("\0", 1);
    activity::leave_with(kSignalled + signal);
    record_crash(kSignalled + signal, reason.view().data());
  }
  // A fault strikes again as soon as this returns, and then meets who was there before; what was sent must be sent
  // again.
  if (info->si_code <= 0) raise(signal);
}

std::string current_exception_text() {
  if (!std::current_exception()) return "std::terminate() was called";
  try {
    throw;
  } catch (const std::exception& error) {
    return std::string("an error that nobody caught: ") + error.what();
  } catch (...) {
    return "an exception of an unknown kind that nobody caught";
  }
}

[[noreturn]] void note_termination() {
  const std::string text = current_exception_text();
  activity::leave_with(kSignalled + SIGABRT);
  if (!g_recorded.exchange(true)) record_failure(kSignalled + SIGABRT, text);
  log::error("{}", text);
  if (g_terminate_before) g_terminate_before();
  std::abort();
}

}  // namespace

void record_crashes() {
  const stack_t stack{.ss_sp = g_stack.data(), .ss_flags = 0, .ss_size = g_stack.size()};
  sigaltstack(&stack, nullptr);
  for (std::size_t i = 0; i < kCrashes.size(); ++i) {
    struct sigaction action {};
    action.sa_sigaction = note_crash;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    sigemptyset(&action.sa_mask);
    sigaction(kCrashes[i].signal, &action, &g_before[i]);
  }
  g_terminate_before = std::set_terminate(note_termination);
}

}  // namespace shoal::launch
