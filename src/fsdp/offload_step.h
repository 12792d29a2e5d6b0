// The optimizer's step where masters and states are on the host: unit by unit on a thread of its own, while the rank's
// thread goes on to the next forward pass, which waits for a unit's parameters when it comes to them.
//
//   gradient -> [step, rounded: the host's threads] -> staging -> [copy: a stream of its own] -> what is gathered
#pragma once

#include <memory>
#include <vector>

#include "fsdp/host_step.h"
#include "fsdp/offload_copies.h"
#include "fsdp/offload_worker.h"

namespace shoal {
class Trace;
}

namespace shoal::fsdp {

class OffloadStep {
 public:
  // Of `flats`, of which those that are offloaded() are stepped here. All arguments outlive this; `trace` may be null.
  OffloadStep(const std::vector<TrainedFlat>& flats, OffloadCopies& copies, Trace* trace);
  // Waits for what was started.
  ~OffloadStep();
  OffloadStep(const OffloadStep&) = delete;
  OffloadStep& operator=(const OffloadStep&) = delete;

  // A step of all that start() is called for, in that order: that of their next use is best. What the current stream
  // has queued so far may still read the parameters.
  void begin(const optim::Optimizer& rule, std::vector<optim::GroupRule> groups, const StepFactors& factors);
  // Steps flat number `index` with `gradient`, its own. Returns at once; flat.update() waits for it and drops the
  // gradient.
  void start(std::size_t index, const at::Tensor& gradient);
  // Waits for all. What failed comes out of this or of the first update that was waited for.
  void finish();

 private:
  // What stays from one step to the next.
  struct Shard {
    at::Tensor staging;   // pinned, in the gathered type; undefined where masters are copied as they are
    DeviceMark uploaded;  // what was copied to the device from it
  };
  // What the jobs of a step share.
  struct Step {
    const optim::Optimizer* rule;
    std::vector<optim::GroupRule> groups;
    StepFactors factors;
    int threads;
  };
  HostArrays arrays_of(std::size_t index, const at::Tensor& gradient);
  void run(const Step& step, std::size_t index, const HostArrays& arrays);

  const std::vector<TrainedFlat>* flats_;
  OffloadCopies* copies_;
  Trace* trace_;
  std::vector<Shard> shards_;
  std::shared_ptr<const Step> step_;
  OffloadWorker worker_;  // the last member: its thread uses the others
};

}  // namespace shoal::fsdp
