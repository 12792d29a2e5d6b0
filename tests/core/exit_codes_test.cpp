// docs/exit_codes.md is the promise to users, src/core/exit_code.h what the programs do.
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <regex>
#include <string>

#include "core/exit_code.h"

namespace shoal {
namespace {

using Codes = std::map<int, std::string>;

Codes codes_in(const std::string& file, const std::regex& line_pattern, std::size_t code_group,
               std::size_t name_group) {
  std::ifstream input(std::string(SHOAL_SOURCE_DIR) + "/" + file);
  EXPECT_TRUE(input) << file;
  Codes codes;
  std::smatch match;
  for (std::string line; std::getline(input, line);) {
    if (!std::regex_search(line, match, line_pattern)) continue;
    const bool is_new = codes.emplace(std::stoi(match[code_group]), match[name_group]).second;
    EXPECT_TRUE(is_new) << file << " names code " << match[code_group] << " twice";
  }
  return codes;
}

TEST(ExitCodes, TheTableIsThatOfThePrograms) {
  const Codes table = codes_in("docs/exit_codes.md", std::regex(R"(^\| *(\d+) *\| *(\w+) *\|)"), 1, 2);
  const Codes header = codes_in("src/core/exit_code.h", std::regex(R"(^ *(\w+) = (\d+),)"), 2, 1);
  EXPECT_EQ(table, header);
  EXPECT_EQ(header.at(static_cast<int>(ExitCode::stopped)), "stopped");
  EXPECT_EQ(header.size(), 12u);
}

}  // namespace
}  // namespace shoal
