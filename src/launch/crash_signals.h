// What first_failure.cpp and the handlers of signals share.
#pragma once

namespace shoal::launch {

// record_failure() without allocation or lock; may be called by a handler of signals.
void record_crash(int exit_code, const char* reason) noexcept;

}  // namespace shoal::launch
