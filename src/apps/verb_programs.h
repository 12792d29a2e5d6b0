// The programs behind the driver's verbs, and what they say of themselves.
#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace shoal::apps {

inline constexpr std::string_view kProgramPrefix = "shoal-";

// Beside the driver, and ../libexec/shoal.
std::vector<std::filesystem::path> program_folders();
bool is_program(const std::filesystem::path& path);
std::set<std::string> verbs_in(const std::vector<std::filesystem::path>& folders);

// What a program answers to --describe: one object for each of its verbs; none where it does not know the question.
// Each has verb, synopsis, summary, example, see and groups of options (apps/command_line.h).
std::vector<nlohmann::ordered_json> described_verbs(const std::string& verb,
                                                    const std::vector<std::filesystem::path>& folders);

}  // namespace shoal::apps
