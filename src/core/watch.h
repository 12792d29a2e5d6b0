// A thread that looks after what the main thread cannot see while it waits: collectives that never end, ranks that
// died, a job that does not get on.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace shoal {

class Watched {
 public:
  virtual ~Watched() = default;
  // One line on what went wrong, or nothing. Called on the watch's thread.
  virtual std::optional<std::string> trouble() = 0;
};

class Watch {
 public:
  // `alarm` gets the first trouble's line, on the watch's thread; it usually ends the process. The watch ends with it.
  Watch(std::chrono::milliseconds period, std::function<void(const std::string&)> alarm);
  ~Watch();
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

  void add(Watched& watched);
  // On return trouble() is not running, and is not called again.
  void remove(Watched& watched);
  void clear();  // the same for all

 private:
  void run();
  std::optional<std::string> look();  // at all, with mutex_ held

  std::chrono::milliseconds period_;
  std::function<void(const std::string&)> alarm_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::vector<Watched*> watched_;
  bool ended_ = false;
  std::thread thread_;
};

}  // namespace shoal
