// The options of shoal preflight.
#pragma once

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace shoal::apps {

struct PreflightOptions {
  std::filesystem::path checkpoint_dir, run_dir, json;  // empty: not given
  std::int64_t size_mib = 64;                           // that each rank writes
  double checkpoint_gib = 0;                            // of all ranks; 0: not known
  int keep = 2;
  std::chrono::seconds timeout{300};
  std::string device = "auto";
};

std::string preflight_help();
std::string preflight_description();  // for the driver
// Nothing: --help was asked for. Options that are not in `arguments` are taken from variables ("SHOAL_CHECKPOINT_DIR")
// of the environment. OptionError.
std::optional<PreflightOptions> parse_preflight_options(const std::vector<std::string>& arguments);

}  // namespace shoal::apps
