// How the program ends where a rank fails: what is told, recorded, and which code is left with.
#pragma once

#include <functional>
#include <string>

#include "core/exit_code.h"

namespace shoal::apps {

// What to say of the exception that is being handled.
struct Failure {
  ExitCode code = ExitCode::internal;
  std::string text;     // one line
  bool told = false;    // by the watch, which has ended this process's waits
  bool agreed = false;  // all ranks have it: rank 0 speaks for them
};
Failure current_failure();

// Runs `body`. What it throws is recorded as the first failure of the attempt before anything is put in order, which
// may take its time, or hang; then it goes on its way.
ExitCode recording_failures(const std::function<ExitCode()>& body);

// For main(), while it handles an exception: tells it and ends the job with its code, or with the one that the watch
// has chosen before.
[[noreturn]] void fail_job() noexcept;

}  // namespace shoal::apps
