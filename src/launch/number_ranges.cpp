#include "launch/number_ranges.h"

#include <fmt/core.h>

namespace shoal::launch {

std::string ranges_text(const std::vector<int>& numbers, std::size_t longest) {
  std::vector<std::string> ranges;
  for (std::size_t i = 0; i < numbers.size();) {
    std::size_t end = i + 1;
    while (end < numbers.size() && numbers[end] == numbers[end - 1] + 1) ++end;
    const int last = numbers[end - 1];
    ranges.push_back(last == numbers[i] ? std::to_string(last) : fmt::format("{}-{}", numbers[i], last));
    i = end;
  }
  std::string text;
  for (const std::string& range : ranges) text += (text.empty() ? "" : ",") + range;
  if (text.size() <= longest || ranges.size() < 4) return text;
  return fmt::format("{},{},...,{} ({})", ranges[0], ranges[1], ranges.back(), numbers.size());
}

}  // namespace shoal::launch
