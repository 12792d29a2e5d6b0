// Processes of this machine, as the system shows them.
#pragma once

#include <cstdint>

namespace shoal {

// Which process a number means: numbers are used again, and mean something in one name space alone.
struct ProcessIdentity {
  std::int64_t number = 0;
  std::int64_t start = 0;   // clock ticks since the machine's boot; 0: not known
  std::uint64_t space = 0;  // of process numbers; 0: not known
};
ProcessIdentity own_identity() noexcept;

enum class ProcessState {
  runs,
  stopped,  // by SIGSTOP, a terminal or a debugger
  ended,    // also where its parent has not noticed yet
  unknown,  // the system does not show it to us
};
ProcessState state_of(const ProcessIdentity& process) noexcept;

}  // namespace shoal
