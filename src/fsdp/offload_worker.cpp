#include "fsdp/offload_worker.h"

#include <utility>

#include "core/logging.h"

namespace shoal::fsdp {

OffloadWorker::~OffloadWorker() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  changed_.notify_all();
  thread_.join();
  if (!failure_ || told_) return;
  try {
    std::rethrow_exception(failure_);
  } catch (const std::exception& error) {
    log::error("the optimizer's step on the host failed: {}", error.what());
  }
}

std::int64_t OffloadWorker::give(std::function<void()> job) {
  std::int64_t number = 0;
  {
    const std::lock_guard lock(mutex_);
    jobs_.push_back(std::move(job));
    number = ++given_;
  }
  changed_.notify_all();
  return number;
}

void OffloadWorker::wait(std::int64_t number) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return done_ >= number; });
  if (!failure_) return;
  told_ = true;
  std::rethrow_exception(failure_);
}

void OffloadWorker::work() {
  for (;;) {
    std::function<void()> job;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return ends_ || !jobs_.empty(); });
      if (jobs_.empty()) return;
      job = std::move(jobs_.front());
      jobs_.pop_front();
    }
    run(job);
    job = nullptr;  // what it holds is given back before somebody is told
    {
      const std::lock_guard lock(mutex_);
      ++done_;
    }
    changed_.notify_all();
  }
}

void OffloadWorker::run(const std::function<void()>& job) {
  {
    const std::lock_guard lock(mutex_);
    if (failure_) return;
  }
  try {
    job();
  } catch (...) {
    const std::lock_guard lock(mutex_);
    failure_ = std::current_exception();
  }
}

}  // namespace shoal::fsdp
