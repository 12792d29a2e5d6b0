#include "hdf5/call.h"

namespace shoal::hdf5 {
namespace {

// Outermost entry first: that says what was wanted, the last says why it failed.
struct Stack {
  std::string outermost, innermost;
};

herr_t collect(unsigned depth, const H5E_error2_t* entry, void* stack_pointer) {
  auto& stack = *static_cast<Stack*>(stack_pointer);
  const std::string text = entry->desc ? entry->desc : "";
  if (depth == 0) stack.outermost = text;
  stack.innermost = text;
  return 0;
}

}  // namespace

std::unique_lock<std::recursive_mutex> lock_library() {
  static std::recursive_mutex mutex;
  std::unique_lock lock(mutex);
  // A thread-safe HDF5 keeps the setting for each thread apart.
  thread_local const herr_t silenced = H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
  static_cast<void>(silenced);
  return lock;
}

void throw_error_stack(const char* function, const std::string& subject) {
  Stack stack;
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_DOWNWARD, collect, &stack);
  H5Eclear2(H5E_DEFAULT);
  if (stack.innermost.empty()) throw Hdf5Error("{}: {} failed and HDF5 gives no reason", subject, function);
  if (stack.innermost == stack.outermost) throw Hdf5Error("{}: {}: {}", subject, function, stack.innermost);
  throw Hdf5Error("{}: {}: {}: {}", subject, function, stack.outermost, stack.innermost);
}

std::string library_version() {
  unsigned major = 0, minor = 0, release = 0;
  call("H5get_libversion", "HDF5", H5get_libversion, &major, &minor, &release);
  return fmt::format("{}.{}.{}", major, minor, release);
}

}  // namespace shoal::hdf5
