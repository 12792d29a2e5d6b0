// A thread that does the host's part of an optimizer's step while the rank's own thread goes on.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>

namespace shoal::fsdp {

class OffloadWorker {
 public:
  OffloadWorker() : thread_([this] { work(); }) {}
  // Waits until all that was given is done. What failed and was never waited for is logged.
  ~OffloadWorker();
  OffloadWorker(const OffloadWorker&) = delete;
  OffloadWorker& operator=(const OffloadWorker&) = delete;

  // Does `job` after all that was given before, and gives its number.
  std::int64_t give(std::function<void()> job);
  // Blocks until the job of that number is done. Where a job failed, what it threw comes out of this and of every later
  // call; jobs after it are not done.
  void wait(std::int64_t number);

 private:
  void work();
  void run(const std::function<void()>& job);

  std::mutex mutex_;  // of what follows
  std::condition_variable changed_;
  std::deque<std::function<void()>> jobs_;
  std::int64_t given_ = 0, done_ = 0;
  bool ends_ = false, told_ = false;
  std::exception_ptr failure_;

  std::thread thread_;  // the last member: it uses the others
};

}  // namespace shoal::fsdp
