// The machine that this process runs on.
#pragma once

#include <string>

namespace shoal {

std::string host_name();  // "unknown" where the system does not tell

}  // namespace shoal
