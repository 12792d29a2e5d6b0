#include "apps/verb_programs.h"

#include <unistd.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "launch/child_process.h"

namespace shoal::apps {
namespace fs = std::filesystem;

std::vector<fs::path> program_folders() {
  const fs::path here = fs::read_symlink("/proc/self/exe").parent_path();
  return {here, here.parent_path() / "libexec" / "shoal"};
}

bool is_program(const fs::path& path) {
  std::error_code ignored;
  return fs::is_regular_file(path, ignored) && access(path.c_str(), X_OK) == 0;
}

std::set<std::string> verbs_in(const std::vector<fs::path>& folders) {
  std::set<std::string> verbs;
  for (const fs::path& folder : folders) {
    std::error_code absent;
    for (const auto& entry : fs::directory_iterator(folder, absent)) {
      const std::string name = entry.path().filename();
      if (name.starts_with(kProgramPrefix) && is_program(entry)) verbs.insert(name.substr(kProgramPrefix.size()));
    }
  }
  return verbs;
}

std::vector<nlohmann::ordered_json> described_verbs(const std::string& verb, const std::vector<fs::path>& folders) {
  constexpr std::chrono::seconds kPatience{60};  // LibTorch may come from a slow file system
  std::vector<nlohmann::ordered_json> all;
  for (const fs::path& folder : folders) {
    const fs::path program = folder / (std::string(kProgramPrefix) + verb);
    if (!is_program(program)) continue;
    const launch::CommandResult answer = launch::run_command({program.string(), "--describe"}, kPatience);
    std::istringstream lines(answer.ok() ? answer.output : "");
    for (std::string line; std::getline(lines, line);) {
      auto described = nlohmann::ordered_json::parse(line, nullptr, false);
      if (described.is_object() && described.contains("groups")) all.push_back(std::move(described));
    }
    break;
  }
  return all;
}

}  // namespace shoal::apps
