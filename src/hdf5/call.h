// Every call into the HDF5 library goes through call(): it throws Hdf5Error with the library's own error stack, and
// it serialises the calls, so that the layer is safe for threads whatever way HDF5 was built. HDF5 itself prints
// nothing.
#pragma once

#include <hdf5.h>

#include <mutex>
#include <string>

#include "core/error.h"

namespace shoal::hdf5 {

class Hdf5Error : public IoError {
 public:
  using IoError::IoError;
};

// The one lock around HDF5. The first taker switches HDF5's printing off in its thread.
std::unique_lock<std::recursive_mutex> lock_library();

// Call under the lock: throws what HDF5's error stack says of `function`, applied to `subject`.
[[noreturn]] void throw_error_stack(const char* function, const std::string& subject);

// `subject`: the file or object in question, for the message.
template <typename Function, typename... Args>
auto call(const char* name, const std::string& subject, Function* function, Args... args) {
  const auto lock = lock_library();
  const auto result = function(args...);
  if (result < 0) [[unlikely]]
    throw_error_stack(name, subject);
  return result;
}

std::string library_version();  // "1.10.8"

}  // namespace shoal::hdf5
