#include "fsdp/device_clock.h"

#include <c10/core/Event.h>

#include <optional>
#include <utility>

#include "fsdp/current_stream.h"

namespace shoal::fsdp {
namespace {

class HostMoment final : public Moment {
 public:
  explicit HostMoment(double time) : time_(time) {}
  double time() override { return time_; }

 private:
  double time_;
};

}  // namespace

class DeviceMoment final : public Moment {
 public:
  // `base`: an earlier moment of the same device.
  DeviceMoment(const c10::Stream& stream, std::shared_ptr<DeviceMoment> base)
      : event_(stream.device_type(), c10::EventFlag::BACKEND_DEFAULT), base_(std::move(base)) {
    event_.record(stream);
  }

  double time() override {
    if (!time_) {
      constexpr double kMicrosecondsAMillisecond = 1000;
      const double base = base_->time();  // first: only what is past can be measured
      event_.synchronize();
      time_ = base + kMicrosecondsAMillisecond * base_->event_.elapsedTime(event_);
      base_.reset();  // or every moment would keep all the bases before it
    }
    return *time_;
  }

  void synchronize() { event_.synchronize(); }
  void set_time(double time) { time_ = time; }

 private:
  c10::Event event_;
  std::shared_ptr<DeviceMoment> base_;
  std::optional<double> time_;
};

DeviceClock::DeviceClock(const Trace& trace, c10::Device device) : trace_(&trace), device_(device) {
  if (device_.is_cpu()) return;
  const c10::Stream stream = current_stream_of(device_);
  stream.synchronize();  // so that the next event is past at once
  base_ = record(stream);
  base_->synchronize();
  base_->set_time(trace_->now());
}

DeviceClock::~DeviceClock() = default;

std::shared_ptr<DeviceMoment> DeviceClock::record(const c10::Stream& stream) {
  return std::make_shared<DeviceMoment>(stream, base_);
}

std::shared_ptr<Moment> DeviceClock::mark() {
  if (device_.is_cpu()) return std::make_shared<HostMoment>(trace_->now());
  return record(current_stream_of(device_));
}

std::shared_ptr<Moment> DeviceClock::mark(const c10::Stream& stream) {
  if (device_.is_cpu()) return std::make_shared<HostMoment>(trace_->now());
  return record(stream);
}

void DeviceClock::rebase() {
  if (!device_.is_cpu()) base_ = record(current_stream_of(device_));
}

}  // namespace shoal::fsdp
