#include "checkpoint/in_workers.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace shoal::checkpoint {
namespace {

constexpr std::chrono::milliseconds kTick{200};

struct Shared {
  std::atomic<std::size_t> next{0};
  std::atomic<bool> stopped{false};
  std::mutex mutex;  // of the rest
  std::condition_variable ended;
  int running = 0;
  std::exception_ptr failure;
};

void work(Shared& shared, std::size_t count, int worker, const std::function<void(std::size_t, int)>& body) {
  try {
    for (std::size_t i; !shared.stopped && (i = shared.next++) < count;) body(i, worker);
  } catch (...) {
    const std::lock_guard lock(shared.mutex);
    if (!shared.failure) shared.failure = std::current_exception();
    shared.stopped = true;
  }
  const std::lock_guard lock(shared.mutex);
  if (--shared.running == 0) shared.ended.notify_one();
}

}  // namespace

void in_workers(int workers, std::size_t count, const std::function<void(std::size_t, int)>& body,
                const std::function<void()>& tick) {
  Shared shared;
  shared.running = static_cast<int>(std::min(static_cast<std::size_t>(workers), count));
  {
    std::vector<std::jthread> threads;
    for (int worker = 0, all = shared.running; worker < all; ++worker)
      threads.emplace_back([&, worker] { work(shared, count, worker, body); });
    std::unique_lock lock(shared.mutex);
    while (!shared.ended.wait_for(lock, kTick, [&] { return shared.running == 0; }))
      if (tick) tick();
  }
  if (shared.failure) std::rethrow_exception(shared.failure);
}

}  // namespace shoal::checkpoint
