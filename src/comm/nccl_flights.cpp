#include "comm/nccl_flights.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

namespace shoal::comm {
namespace {

// "all_gather (436207616 bytes; all-gather of unit 'h.3')"
std::string text_of(const NcclFlight& flight) {
  return fmt::format("{} ({} bytes{}{})", flight.collective, flight.bytes, flight.activity.empty() ? "" : "; ",
                     flight.activity);
}

}  // namespace

// Events are used again once neither the list nor a Work holds the flight.
std::shared_ptr<NcclFlight> NcclFlights::take_flight() {
  if (free_.empty()) {
    const bool timed = observer_ != nullptr;
    free_.push_back(std::make_unique<NcclFlight>());
    free_.back()->done = make_event(timed);
    if (timed) free_.back()->start = make_event(timed);
  }
  NcclFlight* flight = free_.back().release();
  free_.pop_back();
  return {flight, [this](NcclFlight* used) {
            std::unique_ptr<NcclFlight> owned(used);
            const bool timed = static_cast<bool>(used->start);
            if (timed == (observer_ != nullptr)) free_.push_back(std::move(owned));
          }};
}

std::shared_ptr<NcclFlight> NcclFlights::begin(const ProcessGroup& group, const char* collective, std::int64_t bytes,
                                               cudaStream_t callers, cudaStream_t stream) {
  retire(group);
  std::shared_ptr<NcclFlight> flight = take_flight();
  flight->collective = collective;
  flight->activity = group.activity();
  flight->bytes = bytes;
  flight->serial = ++serial_;
  flight->limit = group.timeout();
  flight->queued = false;
  // What the caller has queued so far made the input, or still reads the output's old content.
  SHOAL_CUDA_CALL(cudaEventRecord(flight->done.get(), callers));
  SHOAL_CUDA_CALL(cudaStreamWaitEvent(stream, flight->done.get()));
  if (flight->start) SHOAL_CUDA_CALL(cudaEventRecord(flight->start.get(), stream));
  const std::lock_guard lock(mutex_);
  flights_.push_back(flight);
  return flight;
}

void NcclFlights::queued(NcclFlight& flight, cudaStream_t stream) {
  SHOAL_CUDA_CALL(cudaEventRecord(flight.done.get(), stream));
  const std::lock_guard lock(mutex_);
  flight.queued = true;
}

void NcclFlights::retire(const ProcessGroup& group) {
  while (!flights_.empty() && flights_.front()->queued) {
    const cudaError_t state = cudaEventQuery(flights_.front()->done.get());
    if (state == cudaErrorNotReady) return;
    check_cuda(state, "a collective on the GPU");
    if (observer_) report(group, *flights_.front());
    std::shared_ptr<NcclFlight> ended;  // outlives the lock, which what it does at its end need not hold
    const std::lock_guard lock(mutex_);
    ended = std::move(flights_.front());
    flights_.pop_front();
  }
}

void NcclFlights::report(const ProcessGroup& group, NcclFlight& flight) {
  if (!flight.start) return;  // called before there was an observer
  // A float of milliseconds: exact to a microsecond for some seconds, so the base moves along.
  constexpr float kFar = 5e3f;
  float since_base = 0, duration = 0;
  SHOAL_CUDA_CALL(cudaEventElapsedTime(&since_base, base_.get(), flight.start.get()));
  SHOAL_CUDA_CALL(cudaEventElapsedTime(&duration, flight.start.get(), flight.done.get()));
  const double start = base_time_ + 1e3 * static_cast<double>(since_base);
  observer_->collective({.group = group.name(),
                         .collective = flight.collective,
                         .activity = flight.activity,
                         .bytes = flight.bytes,
                         .start = start,
                         .end = start + 1e3 * static_cast<double>(duration)});
  if (since_base > kFar) {
    std::swap(base_, flight.start);
    base_time_ = start;
  }
}

void NcclFlights::observe(std::shared_ptr<CollectiveObserver> observer, const ProcessGroup& group,
                          cudaStream_t stream) {
  SHOAL_CUDA_CALL(cudaStreamSynchronize(stream));
  retire(group);
  observer_ = std::move(observer);
  free_.clear();  // their events are of the other kind
  if (!observer_) return;
  base_ = make_event(true);
  SHOAL_CUDA_CALL(cudaEventRecord(base_.get(), stream));
  SHOAL_CUDA_CALL(cudaEventSynchronize(base_.get()));
  base_time_ = observer_->now();
}

void NcclFlights::abandon() noexcept {
  const auto leave = [](NcclFlight& flight) {
    flight.start.release();
    flight.done.release();
  };
  for (const auto& flight : flights_) leave(*flight);
  for (const auto& flight : free_) leave(*flight);
  base_.release();
}

const NcclFlight* NcclFlights::oldest_under_way() const {
  for (const auto& flight : flights_)
    if (!flight->queued || cudaEventQuery(flight->done.get()) != cudaSuccess) return flight.get();
  return nullptr;
}

bool NcclFlights::waited_too_long(const NcclFlight& oldest) {
  constexpr std::chrono::seconds kLongestGap{1};  // a process that was stopped for a while has not waited
  const auto now = std::chrono::steady_clock::now();
  waited_ += std::min<std::chrono::steady_clock::duration>(now - last_look_, kLongestGap);
  last_look_ = now;
  if (std::exchange(oldest_, oldest.serial) != oldest.serial) waited_ = {};
  return waited_ >= oldest.limit;
}

std::optional<std::string> NcclFlights::trouble() {
  const std::lock_guard lock(mutex_);
  cudaSetDevice(device_);
  cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;  // a query here spoils no capture of the main thread's
  cudaThreadExchangeStreamCaptureMode(&mode);
  const NcclFlight* flight = oldest_under_way();
  if (!flight) return std::nullopt;
  // A nonblocking communicator may be asked by one thread alone, the one that calls it.
  ncclResult_t state = ncclSuccess;
  if (!comm_->nonblocking() && ncclCommGetAsyncError(comm_->get(), &state) == ncclSuccess && state != ncclSuccess &&
      state != ncclInProgress)
    return fmt::format("NCCL: {} failed on rank {} of {} ranks: {}", text_of(*flight), comm_->rank(), comm_->size(),
                       ncclGetErrorString(state));
  if (!waited_too_long(*flight)) return std::nullopt;
  return fmt::format(
      "rank {} of {} ranks waited {:g} s for the end of {}; some rank did not come (it ended, hangs, or "
      "took another path through the model); --collective-timeout sets the limit",
      comm_->rank(), comm_->size(), static_cast<double>(flight->limit.count()) / 1e3, text_of(*flight));
}

}  // namespace shoal::comm
