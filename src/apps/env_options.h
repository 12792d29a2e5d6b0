// The command line of shoal-env.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace shoal::apps {

struct EnvOptions {
  bool json = false;
  std::optional<std::string> expand;  // a host list
  std::vector<std::string> compress;  // hosts
};

// Prints the help and returns false where it was asked for. OptionError, in one line, for everything that is not
// understood.
bool parse_env_options(const std::vector<std::string>& arguments, EnvOptions& options);

}  // namespace shoal::apps
