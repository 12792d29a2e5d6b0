// Configs as trees of values, whichever language they are written in.
#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>

namespace shoal::configs {

// `option`, as "--deepspeed-config", is named in errors. OptionError, with line and column, for what does not parse,
// for a key that a block has twice, and for a file that is no block of keys.
nlohmann::json read_json(const std::filesystem::path& file, const std::string& option);
// Scalars without quotes are null, true, false and numbers where they look like it, as in YAML 1.1 (yes, on, …).
nlohmann::json read_yaml(const std::filesystem::path& file, const std::string& option);

}  // namespace shoal::configs
