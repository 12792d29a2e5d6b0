#include "core/logging.h"

#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include <atomic>
#include <cstdio>

namespace shoal::log {
namespace {

std::atomic<int> g_rank{-1};
std::atomic<bool> g_quiet{false};

spdlog::logger& logger() {
  static const auto instance = [] {
    auto made = std::make_shared<spdlog::logger>("shoal", std::make_shared<spdlog::sinks::stderr_color_sink_mt>());
    made->set_pattern("%^shoal%$: %v");
    made->flush_on(spdlog::level::info);
    return made;
  }();
  return *instance;
}

std::string with_rank(const char* kind, const std::string& line) {
  const int rank = g_rank;
  return rank < 0 ? fmt::format("{}{}", kind, line) : fmt::format("{}rank {}: {}", kind, rank, line);
}

}  // namespace

void set_rank(int rank) noexcept { g_rank = rank; }
void set_quiet(bool quiet) noexcept { g_quiet = quiet; }

void write(Level level, const std::string& line) noexcept {
  switch (level) {
    case Level::info:
      if (g_rank <= 0 && !g_quiet) logger().info(line);
      break;
    case Level::warning: logger().warn(with_rank("warning: ", line)); break;
    case Level::error: logger().error(with_rank("error: ", line)); break;
  }
}

void print_result(const std::string& line) noexcept {
  if (g_rank > 0) return;
  std::fprintf(stdout, "%s\n", line.c_str());
  std::fflush(stdout);
}

}  // namespace shoal::log
