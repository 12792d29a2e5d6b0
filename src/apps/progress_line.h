// How far a long copy is: one line that is written over on a terminal, a line now and then elsewhere.
#pragma once

#include <cstdint>
#include <string>

#include "core/timer.h"

namespace shoal::apps {

class ProgressLine {
 public:
  ProgressLine();
  ~ProgressLine();  // takes the line away from a terminal
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  // `bytes` of `all_bytes`; `bytes_before` of them were there before it began. Another `what` begins anew.
  void show(const std::string& what, std::int64_t bytes, std::int64_t all_bytes, std::int64_t bytes_before = 0);

 private:
  bool terminal_;
  bool shown_ = false;
  std::string what_;
  Timer since_begin_, since_line_;
};

}  // namespace shoal::apps
