// What the main() of a program without MPI does around its work.
#pragma once

#include <exception>
#include <functional>
#include <new>

#include "core/error.h"
#include "core/exit_code.h"
#include "core/logging.h"

namespace shoal::apps {

// Runs `body`; an exception becomes one line on standard error and its exit code.
inline ExitCode run_program(const std::function<ExitCode()>& body) {
  try {
    return body();
  } catch (const Error& error) {
    log::error("{}", error.what());
    return error.exit_code();
  } catch (const std::bad_alloc&) {
    log::error("out of memory");
  } catch (const std::exception& error) {
    log::error("{}", error.what());
  }
  return ExitCode::internal;
}

}  // namespace shoal::apps
