// The environment of a process as values. Whatever reads the environment takes a Variables, so that tests give it one.
#pragma once

#include <map>
#include <string>

namespace shoal::launch {

using Variables = std::map<std::string, std::string>;

// `environment` is the array of the system ("NAME=value", ended by a null pointer). Of a name that is there twice the
// first one counts, as for getenv(); entries without '=' are left out.
Variables read_environment(const char* const* environment);

}  // namespace shoal::launch
