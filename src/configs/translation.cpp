#include "configs/translation.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

namespace shoal::configs {

std::string command_line(const std::vector<Setting>& settings) {
  std::string text = "shoal train";
  for (const Setting& setting : settings) {
    text += fmt::format(" --{}", setting.option);
    if (!setting.value.empty()) text += " " + setting.value;
  }
  return text;
}

std::string warning_of(const Translation& translation) {
  std::string text = fmt::format("{}", fmt::join(translation.remarks, "; "));
  if (translation.left_out.empty()) return text;
  return fmt::format("{}{}without a counterpart here, and left out: {}", text, text.empty() ? "" : "; ",
                     fmt::join(translation.left_out, ", "));
}

}  // namespace shoal::configs
