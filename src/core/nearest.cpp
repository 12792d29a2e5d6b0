#include "core/nearest.h"

#include <fmt/core.h>

#include <algorithm>
#include <numeric>

namespace shoal {

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before_last, last(b.size() + 1), row(b.size() + 1);
  std::iota(last.begin(), last.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = last[j - 1] + (a[i - 1] != b[j - 1]);
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, replaced});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) row[j] = std::min(row[j], before_last[j - 2] + 1);
    }
    before_last = last;
    last = row;
  }
  return last.back();
}

std::string nearest(std::string_view word, const std::vector<std::string>& known) {
  const std::size_t most = std::max<std::size_t>(2, word.size() / 3);
  std::size_t best = most + 1;
  std::string found;
  for (const std::string& name : known) {
    const std::size_t distance = edit_distance(word, name);
    // A word of which nothing is left is not near, however short it is.
    if (distance >= best || distance >= std::max(word.size(), name.size())) continue;
    best = distance;
    found = name;
  }
  return found;
}

std::string did_you_mean(std::string_view word, const std::vector<std::string>& known, std::string_view otherwise,
                         std::string_view prefix) {
  const std::string name = nearest(word, known);
  return name.empty() ? std::string(otherwise) : fmt::format("; did you mean '{}{}'?", prefix, name);
}

}  // namespace shoal
