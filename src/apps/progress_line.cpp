#include "apps/progress_line.h"

#include <fmt/core.h>
#include <unistd.h>

#include <cstdio>

#include "apps/ckpt_text.h"
#include "core/logging.h"

namespace shoal::apps {
namespace {

constexpr double kSecondsBetweenLines = 30;  // in a job's log

std::string text_of(const std::string& what, std::int64_t bytes, std::int64_t all, std::int64_t before,
                    double seconds) {
  const double rate = static_cast<double>(bytes - before) / seconds;
  std::string text = fmt::format("{}: {} of {} ({} %), {:.0f} MB/s", what, human_bytes(bytes), human_bytes(all),
                                 all == 0 ? 100 : bytes * 100 / all, rate / 1e6);
  if (rate > 0) text += fmt::format(", {:.0f} s left", static_cast<double>(all - bytes) / rate);
  return text;
}

}  // namespace

ProgressLine::ProgressLine() : terminal_(::isatty(STDERR_FILENO) == 1) {}

ProgressLine::~ProgressLine() {
  if (shown_ && terminal_) std::fputs("\r\033[K", stderr);
}

void ProgressLine::show(const std::string& what, std::int64_t bytes, std::int64_t all_bytes,
                        std::int64_t bytes_before) {
  if (what != what_) {
    what_ = what;
    since_begin_ = since_line_ = Timer();
  }
  if (!terminal_ && since_line_.seconds() < kSecondsBetweenLines) return;
  const std::string text = text_of(what, bytes, all_bytes, bytes_before, since_begin_.seconds());
  since_line_ = Timer();
  shown_ = true;
  if (terminal_)
    std::fputs(("\r\033[K" + text).c_str(), stderr);
  else
    log::info("{}", text);
}

}  // namespace shoal::apps
