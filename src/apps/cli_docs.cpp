#include "apps/cli_docs.h"

#include <fmt/core.h>

#include <nlohmann/json.hpp>
#include <string_view>

namespace shoal::apps {
namespace {

using Json = nlohmann::ordered_json;

// In a cell of a table: no line ends, no bars, and nothing that Markdown takes for a tag or for emphasis.
std::string cell(std::string_view text) {
  std::string safe;
  for (const char c : text) {
    if (c == '\n') {
      safe += "<br>";
    } else {
      if (std::string_view("|<>*_").find(c) != std::string_view::npos) safe += '\\';
      safe += c;
    }
  }
  return safe;
}

std::string table_of(const Json& group) {
  std::string text = fmt::format("| {} | |\n|---|---|\n", group["title"].get<std::string>());
  for (const Json& option : group["options"]) {
    const std::string value = option["value"];
    text += fmt::format("| `--{}{}` | {} |\n", option["name"].get<std::string>(), value.empty() ? "" : " " + value,
                        cell(option["text"].get<std::string>()));
  }
  return text;
}

std::string section_of(const Json& verb) {
  std::string text = fmt::format("## shoal {}\n\n```\n{}\n```\n\n{}\n", verb["verb"].get<std::string>(),
                                 verb["synopsis"].get<std::string>(), verb["summary"].get<std::string>());
  const std::string see = verb["see"];
  if (!see.empty()) text += "\n" + see + "\n";
  for (const Json& group : verb["groups"]) text += "\n" + table_of(group);
  return text + fmt::format("\n```bash\n{}\n```\n", verb["example"].get<std::string>());
}

}  // namespace

std::string cli_docs(const std::vector<Json>& verbs) {
  std::string text =
      "# The command line\n\n"
      "All verbs with all options, as `shoal VERB --help` shows them. Made by `shoal --print-cli-docs`, with which a "
      "test\n"
      "compares this file. `shoal --completion bash` prints a completion for bash, which `cmake --install` puts where "
      "bash\n"
      "looks for it; `source <(shoal --completion bash)` has it at once.\n";
  for (const Json& verb : verbs) text += "\n" + section_of(verb);
  return text;
}

}  // namespace shoal::apps
