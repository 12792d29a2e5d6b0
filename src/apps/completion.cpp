#include "apps/completion.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <string_view>

namespace shoal::apps {
namespace {

using Json = nlohmann::ordered_json;

// Words by which options name values that are files or folders, which are completed like other arguments.
bool is_path(const std::string& value) {
  constexpr std::string_view kPaths[] = {"PATH", "FILE", "DIR", "FILE..."};
  return std::any_of(std::begin(kPaths), std::end(kPaths), [&](auto word) { return value == word; });
}

// The names in a text of lines "NAME: what it is" behind its first.
std::string choices_in(const std::string& text) {
  std::string names;
  for (std::size_t line = text.find('\n'); line != text.npos; line = text.find('\n', line + 1)) {
    const std::size_t colon = text.find(": ", line);
    if (colon != text.npos) names += " " + text.substr(line + 1, colon - line - 1);
  }
  return names;
}

// The words after "shoal", as a pattern of bash's case: "train", "ckpt list".
std::string case_of(const Json& verb) {
  std::string options, values, choices;
  for (const Json& group : verb["groups"]) {
    for (const Json& option : group["options"]) {
      const std::string name = "--" + option["name"].get<std::string>(), value = option["value"];
      options += (options.empty() ? "" : " ") + name;
      if (!value.empty() && !is_path(value)) values += " " + name;
      const std::string names = choices_in(option["text"]);
      if (!names.empty()) choices += fmt::format("      [[ $prev != {} ]] || choices=\"{} \"\n", name, names);
    }
  }
  return fmt::format("    \"{}\")\n{}      options=\"{}\"\n      values=\"{} \" ;;\n", verb["verb"].get<std::string>(),
                     choices, options, values);
}

constexpr const char* kHead = R"(# Completion of shoal for bash. Made by: shoal --completion bash
_shoal() {
  local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]} verb=${COMP_WORDS[1]}
  local choices="" options="" values=" "
  COMPREPLY=()
)";

constexpr const char* kTail = R"(  esac
  if [[ -n $choices ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$choices" -- "$cur")
  elif [[ $cur == -* && $values != *" $prev "* ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$options" -- "$cur")
  elif [[ $values != *" $prev "* ]]; then
    mapfile -t COMPREPLY < <(compgen -f -- "$cur")
  fi
}
complete -o filenames -F _shoal shoal
)";

// "if CONDITION: complete one of WORDS".
std::string reply(const std::string& condition, const std::string& words) {
  return fmt::format("  if {}; then\n    mapfile -t COMPREPLY < <(compgen -W \"{}\" -- \"$cur\")\n    return\n  fi\n",
                     condition, words);
}

}  // namespace

std::string bash_completion(const std::set<std::string>& names, const std::vector<Json>& verbs) {
  std::string cases;
  std::map<std::string, std::string> families;  // "ckpt": the verbs of its own
  for (const Json& verb : verbs) {
    const std::string name = verb["verb"];
    const std::size_t space = name.find(' ');
    if (space != name.npos) families[name.substr(0, space)] += name.substr(space + 1) + " ";
    cases += case_of(verb);
  }
  std::string text = kHead;
  text += reply("((COMP_CWORD == 1))",
                fmt::format("{} help --help --version --completion --print-cli-docs", fmt::join(names, " ")));
  for (const auto& [family, inner] : families) {
    text += reply(fmt::format("[[ $verb == {} ]] && ((COMP_CWORD == 2))", family), inner + "--help");
    text += fmt::format("  [[ $verb != {} ]] || verb+=\" ${{COMP_WORDS[2]}}\"\n", family);
  }
  return text + "  case $verb in\n" + cases + kTail;
}

}  // namespace shoal::apps
