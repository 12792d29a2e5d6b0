#include "core/logging.h"

#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include <atomic>
#include <cstdio>
#include <deque>
#include <memory>
#include <mutex>

#include "core/error.h"

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

// The file of this rank, and until there is one, what is to go there.
class RankFile {
 public:
  void open(const std::filesystem::path& path) {
    std::shared_ptr<spdlog::logger> made;
    try {
      made = std::make_shared<spdlog::logger>(
          "file", std::make_shared<spdlog::sinks::basic_file_sink_mt>(path.string(), /*truncate=*/false));
    } catch (const spdlog::spdlog_ex& error) {
      throw IoError("the log file {} cannot be written: {}", path.string(), error.what());
    }
    made->set_pattern("%Y-%m-%dT%H:%M:%S.%e%z %l: %v");
    made->flush_on(spdlog::level::info);
    const std::lock_guard lock(mutex_);
    file_ = made;
    for (const spdlog::details::log_msg_buffer& line : waiting_) file_->log(line.time, {}, line.level, line.payload);
    waiting_.clear();
  }

  void close() {
    const std::lock_guard lock(mutex_);
    file_.reset();
    waiting_.clear();
  }

  void write(spdlog::level::level_enum level, const std::string& line) noexcept {
    try {
      const std::lock_guard lock(mutex_);
      if (file_) {
        file_->log(level, line);
        return;
      }
      waiting_.emplace_back(spdlog::details::log_msg("file", level, line));
      if (waiting_.size() > kMostWaiting) waiting_.pop_front();
    } catch (const std::exception& error) {
      std::fprintf(stderr, "shoal: warning: a line is missing in the log file: %s\n", error.what());
    }
  }

 private:
  static constexpr std::size_t kMostWaiting = 1000;
  std::mutex mutex_;
  std::shared_ptr<spdlog::logger> file_;
  std::deque<spdlog::details::log_msg_buffer> waiting_;
};

// Never destroyed: errors are logged until the very end.
RankFile& rank_file() {
  static auto* const file = new RankFile;
  return *file;
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
      rank_file().write(spdlog::level::info, line);
      if (g_rank <= 0 && !g_quiet) logger().info(line);
      break;
    case Level::warning:
      rank_file().write(spdlog::level::warn, line);
      logger().warn(with_rank("warning: ", line));
      break;
    case Level::error:
      rank_file().write(spdlog::level::err, line);
      logger().error(with_rank("error: ", line));
      break;
  }
}

void append_to(const std::filesystem::path& file) {
  if (file.empty())
    rank_file().close();
  else
    rank_file().open(file);
}

void print_result(const std::string& line) noexcept {
  rank_file().write(spdlog::level::info, line);
  if (g_rank > 0) return;
  std::fprintf(stdout, "%s\n", line.c_str());
  std::fflush(stdout);
}

}  // namespace shoal::log
