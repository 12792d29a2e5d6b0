#include "core/watch.h"

#include <algorithm>

namespace shoal {

Watch::Watch(std::chrono::milliseconds period, std::function<void(const std::string&)> alarm)
    : period_(period), alarm_(std::move(alarm)), thread_([this] { run(); }) {}

Watch::~Watch() {
  {
    const std::lock_guard lock(mutex_);
    ended_ = true;
  }
  wake_.notify_all();
  thread_.join();
}

void Watch::add(Watched& watched) {
  const std::lock_guard lock(mutex_);
  watched_.push_back(&watched);
}

void Watch::remove(Watched& watched) {
  const std::lock_guard lock(mutex_);
  watched_.erase(std::remove(watched_.begin(), watched_.end(), &watched), watched_.end());
}

void Watch::clear() {
  const std::lock_guard lock(mutex_);
  watched_.clear();
}

std::optional<std::string> Watch::look() {
  for (Watched* watched : watched_)
    if (auto line = watched->trouble()) return line;
  return std::nullopt;
}

void Watch::run() {
  std::optional<std::string> line;
  {
    std::unique_lock lock(mutex_);
    while (!line && !wake_.wait_for(lock, period_, [this] { return ended_; })) line = look();
  }
  if (line) alarm_(*line);  // without the lock: main may be on its way out meanwhile
}

}  // namespace shoal
