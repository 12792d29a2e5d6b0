#include "data/loader.h"

#include <utility>

#include "core/check.h"

namespace shoal::data {

Loader::Loader(const Dataset& dataset, NextRequest next_request, int depth, Memory memory)
    : dataset_(dataset),
      next_request_(std::move(next_request)),
      depth_(static_cast<std::size_t>(depth)),
      memory_(memory) {
  SHOAL_ASSERT(depth >= 0);
  if (depth_ > 0) thread_ = std::jthread([this](const std::stop_token& stop) { prepare(stop); });
}

std::optional<Batch> Loader::make_batch() const {
  const auto request = next_request_();
  if (!request) return std::nullopt;
  Batch batch = dataset_.epoch_batch(request->epoch, request->indices);
  if (memory_ == Memory::pinned) {
    batch.inputs = batch.inputs.pin_memory();
    batch.targets = batch.targets.pin_memory();
  }
  return batch;
}

std::optional<Batch> Loader::next() {
  if (depth_ == 0) return make_batch();
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return !ready_.empty() || finished_; });
  if (!ready_.empty()) {
    Batch batch = std::move(ready_.front());
    ready_.pop_front();
    changed_.notify_all();
    return batch;
  }
  if (failure_) std::rethrow_exception(failure_);
  return std::nullopt;
}

bool Loader::wait_for_room(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  return changed_.wait(lock, stop, [&] { return ready_.size() < depth_; });
}

void Loader::prepare(const std::stop_token& stop) {
  std::exception_ptr failure;
  try {
    while (wait_for_room(stop) && !stop.stop_requested()) {
      std::optional<Batch> batch = make_batch();
      if (!batch) break;
      const std::lock_guard lock(mutex_);
      ready_.push_back(std::move(*batch));
      changed_.notify_all();
    }
  } catch (...) {
    failure = std::current_exception();
  }
  const std::lock_guard lock(mutex_);
  failure_ = failure;
  finished_ = true;
  changed_.notify_all();
}

}  // namespace shoal::data
