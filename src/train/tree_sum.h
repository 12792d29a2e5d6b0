// Sums in the order of a binary tree over their terms, which come one by one.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

namespace shoal::train {

// Adjacent terms are paired, adjacent pairs are paired, and so on, the odd ones out from the smallest up: as a binary
// counter counts. Terms that are trees over 2^k terms themselves give the tree over all of these.
class TreeSum {
 public:
  void add(double term) {
    int level = 0;
    for (; !partial_.empty() && partial_.back().first == level; ++level) {
      term = partial_.back().second + term;
      partial_.pop_back();
    }
    partial_.emplace_back(level, term);
  }
  double value() const {
    if (partial_.empty()) return 0;
    double sum = partial_.back().second;
    for (std::size_t i = partial_.size() - 1; i-- > 0;) sum = partial_[i].second + sum;
    return sum;
  }

 private:
  std::vector<std::pair<int, double>> partial_;  // levels fall from front to back
};

}  // namespace shoal::train
