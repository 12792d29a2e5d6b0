// An update of a flat parameter's shards that is on its way, and who waits for it.
#pragma once

#include <functional>
#include <utility>

namespace shoal::fsdp {

class PendingUpdate {
 public:
  // `finish` waits until the shards are written, so that what the current stream queues next finds them. It is called
  // once, by who first needs them.
  void set(std::function<void()> finish) { finish_ = std::move(finish); }
  // Nothing where nothing is on its way. What the update threw comes out.
  void finish() {
    if (finish_) std::exchange(finish_, nullptr)();
  }

 private:
  std::function<void()> finish_;
};

}  // namespace shoal::fsdp
