#include "preflight/guard.h"

#include <cstdlib>
#include <thread>

#include "core/exit_code.h"
#include "core/logging.h"

namespace shoal::preflight {
namespace {

// mpirun sends SIGKILL one second after SIGTERM.
constexpr std::chrono::milliseconds kPeriod{25};

}  // namespace

Guard::Guard(std::chrono::milliseconds limit)
    : deadline_(std::chrono::steady_clock::now() + limit),
      watch_(kPeriod, [this](const std::string& line) { end(line); }) {
  watch_.add(*this);
}

Guard::~Guard() { watch_.remove(*this); }

void Guard::set_activity(std::string activity) {
  const std::lock_guard lock(mutex_);
  activity_ = std::move(activity);
}

void Guard::remove_at_end(const std::filesystem::path& path, const std::vector<std::filesystem::path>& parents) {
  const std::lock_guard lock(mutex_);
  made_.push_back({path, parents});
}

void Guard::forget(const std::filesystem::path& path) {
  const std::lock_guard lock(mutex_);
  std::erase_if(made_, [&](const Made& made) { return made.path == path; });
}

std::optional<std::string> Guard::trouble() {
  const std::lock_guard lock(mutex_);
  if (const int signal = stop_.received(); signal != 0)
    return fmt::format("stopped by {} in {}", launch::signal_name(signal), activity_);
  if (std::chrono::steady_clock::now() < deadline_) return std::nullopt;
  return fmt::format("the time is up, and this rank is still in {}; --timeout sets the limit", activity_);
}

void Guard::end(const std::string& line) {
  log::error("{}", line);
  std::vector<Made> made;
  {
    const std::lock_guard lock(mutex_);
    made = made_;
  }
  const int signal = stop_.received();
  const int code = signal == 0 ? static_cast<int>(ExitCode::communication) : 128 + signal;
  // On a thread of its own, since a file system that hangs holds whoever asks it.
  std::thread([made, code] {
    for (const auto& [path, parents] : made) remove_patiently(path, parents);
    std::_Exit(code);
  }).detach();
  std::this_thread::sleep_for(std::chrono::seconds(2));
  std::_Exit(code);
}

void remove_patiently(const std::filesystem::path& path, const std::vector<std::filesystem::path>& parents) noexcept {
  std::error_code error;
  for (int attempt = 0; attempt < 10; ++attempt) {
    std::filesystem::remove_all(path, error);
    if (!std::filesystem::exists(path, error)) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  for (auto parent = parents.rbegin(); parent != parents.rend(); ++parent) std::filesystem::remove(*parent, error);
}

}  // namespace shoal::preflight
