// The collectives of one group that have been called and may not have ended: what the watch looks at and the trace is
// made of.
#pragma once

#include <chrono>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "comm/nccl_calls.h"
#include "comm/nccl_communicator.h"
#include "core/watch.h"

namespace shoal::comm {

struct NcclFlight {
  UniqueEvent start, done;  // start: only for an observer
  const char* collective = "";
  std::string activity;
  std::int64_t bytes = 0;
  std::uint64_t serial = 0;
  std::chrono::milliseconds limit{};
  bool queued = false;  // on the stream, with `done` behind it
};

// All calls but trouble() come from the thread that uses the group. Flights must not outlive this.
class NcclFlights final : public Watched {
 public:
  NcclFlights(std::shared_ptr<NcclCommunicator> comm, int device) : comm_(std::move(comm)), device_(device) {}

  // A collective is about to be queued on `stream`, which is made to wait for what is on `callers` so far; hands over
  // what has ended meanwhile.
  std::shared_ptr<NcclFlight> begin(const ProcessGroup& group, const char* collective, std::int64_t bytes,
                                    cudaStream_t callers, cudaStream_t stream);
  // It is on `stream` now.
  void queued(NcclFlight& flight, cudaStream_t stream);

  // Waits for what is under way on `stream` and reports it to the observer until now.
  void observe(std::shared_ptr<CollectiveObserver> observer, const ProcessGroup& group, cudaStream_t stream);

  // After a failure, when trouble() is not called any more: gives no event back to CUDA.
  void abandon() noexcept;

  // A collective that takes longer than its limit, or an error that NCCL met in one of its threads.
  std::optional<std::string> trouble() override;

 private:
  std::shared_ptr<NcclFlight> take_flight();
  void retire(const ProcessGroup& group);
  void report(const ProcessGroup& group, NcclFlight& flight);
  const NcclFlight* oldest_under_way() const;
  bool waited_too_long(const NcclFlight& oldest);

  std::shared_ptr<NcclCommunicator> comm_;
  int device_;
  std::vector<std::unique_ptr<NcclFlight>> free_;
  std::uint64_t serial_ = 0;
  std::shared_ptr<CollectiveObserver> observer_;
  UniqueEvent base_;      // an event of the stream
  double base_time_ = 0;  // and when it was, by the observer's clock

  std::mutex mutex_;  // of flights_ and `queued` of each, which the watch reads
  std::deque<std::shared_ptr<NcclFlight>> flights_;
  // The watch's own: how long the oldest flight has been that.
  std::uint64_t oldest_ = 0;
  std::chrono::steady_clock::duration waited_{};
  std::chrono::steady_clock::time_point last_look_;
};

}  // namespace shoal::comm
