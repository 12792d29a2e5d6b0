// Ends the process where the main thread cannot: a signal came, or the time is up while it waits in a file system, a
// driver or MPI. What the preflight has made is removed first.
#pragma once

#include <chrono>
#include <filesystem>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "core/watch.h"
#include "launch/stop_signal.h"

namespace shoal::preflight {

class Guard final : public Watched {
 public:
  // From now on SIGTERM, SIGINT, SIGUSR1 and SIGUSR2 end the process within half a second, whatever it is at. After
  // `limit` it ends with the exit code for communication, and says what it was doing.
  explicit Guard(std::chrono::milliseconds limit);
  ~Guard() override;

  void set_activity(std::string activity);
  // `path`, with all that is in it, is removed where the guard ends the process, until forget(). Then `parents`, from
  // the last on, where they are empty.
  void remove_at_end(const std::filesystem::path& path, const std::vector<std::filesystem::path>& parents = {});
  void forget(const std::filesystem::path& path);

 private:
  std::optional<std::string> trouble() override;  // on the watch's thread, as end()
  [[noreturn]] void end(const std::string& line);

  const std::chrono::steady_clock::time_point deadline_;
  launch::StopSignal stop_;
  std::mutex mutex_;
  std::string activity_;
  struct Made {
    std::filesystem::path path;
    std::vector<std::filesystem::path> parents;
  };
  std::vector<Made> made_;
  Watch watch_;  // the last member: its thread uses the others
};

// Tries for half a second, since other ranks may be removing the same tree, or still filling it. No errors.
void remove_patiently(const std::filesystem::path& path, const std::vector<std::filesystem::path>& parents) noexcept;

}  // namespace shoal::preflight
