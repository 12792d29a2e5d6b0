// Notes the signals by which people, launchers and schedulers ask a job to stop, and lets the job choose the moment.
#pragma once

#include <array>
#include <csignal>

namespace shoal::launch {

// While an object lives, SIGTERM, SIGINT, SIGUSR1 and SIGUSR2 only leave a note. The first SIGINT also puts that
// signal's default action back: a second Ctrl-C ends the program at once. One object at a time; received() may be
// called from any thread.
class StopSignal {
 public:
  // What the signals do when it is gone: what they did before, or, all but SIGINT, nothing. Schedulers repeat them, and
  // a program that has stopped as it was asked to would end by the second one, and not with its exit code. Where an
  // exception has ended it they do what they did before.
  enum class Afterwards { as_before, ignored };

  explicit StopSignal(Afterwards afterwards = Afterwards::as_before);  // InternalError where another object lives
  ~StopSignal();
  StopSignal(const StopSignal&) = delete;
  StopSignal& operator=(const StopSignal&) = delete;

  // Libraries that start later, NCCL among them, may have put handlers of their own in place of these: each such signal
  // is taken back, with a warning. How many there were.
  int take_back() const;

  int received() const noexcept;  // the number of the first signal that came, 0: none

 private:
  static constexpr std::array<int, 4> kSignals{SIGTERM, SIGINT, SIGUSR1, SIGUSR2};
  Afterwards afterwards_;
  int exceptions_at_start_;
  std::array<struct sigaction, kSignals.size()> before_{};
};

const char* signal_name(int signal) noexcept;  // "SIGUSR1"; "signal" for those that StopSignal does not note

}  // namespace shoal::launch
