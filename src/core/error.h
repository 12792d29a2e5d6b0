// Errors are exceptions. Each says in one line what is wrong, where, and how to mend it, and carries the exit code
// with which the program ends. A user's mistake names the flag to change.
#pragma once

#include <fmt/core.h>

#include <stdexcept>
#include <string>
#include <utility>

#include "core/exit_code.h"

namespace shoal {

class Error : public std::runtime_error {
 public:
  Error(ExitCode code, const std::string& message) : std::runtime_error(message), code_(code) {}
  ExitCode exit_code() const noexcept { return code_; }

 private:
  ExitCode code_;
};

template <ExitCode kCode>
class ErrorOf : public Error {
 public:
  template <typename... Args>
  explicit ErrorOf(fmt::format_string<Args...> format, Args&&... args)
      : Error(kCode, fmt::format(format, std::forward<Args>(args)...)) {}
};

using InternalError = ErrorOf<ExitCode::internal>;
using OptionError = ErrorOf<ExitCode::usage>;
using DataError = ErrorOf<ExitCode::data>;
using CheckpointError = ErrorOf<ExitCode::checkpoint>;
using IoError = ErrorOf<ExitCode::io>;
using CommunicationError = ErrorOf<ExitCode::communication>;
using DeviceError = ErrorOf<ExitCode::device>;
using NoProgressError = ErrorOf<ExitCode::no_progress>;
using SupersededError = ErrorOf<ExitCode::superseded>;

}  // namespace shoal
