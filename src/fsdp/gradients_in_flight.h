// What gradients take of a rank's memory beside the shards that are summed: on their way to the host (--offload), and
// in steps of several micro-steps on their way into the sum.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "fsdp/accumulation.h"
#include "fsdp/unit_sizes.h"

namespace shoal::fsdp {

// Of a backward pass, in the order in which its gradients come.
struct GradientEvent {
  enum class Kind { first, complete, end };  // of a unit's gradients; end: of the pass
  Kind kind = Kind::end;
  std::size_t unit = 0;  // an index of the units
};

// Goes through the engine's handling of gradients (Runtime, FlatGradient, OffloadCopies) by their sizes alone. Bytes.
class GradientsInFlight {
 public:
  struct Moment {
    std::int64_t before = 0;  // between the event before and this one
    std::int64_t during = 0;  // the most while the engine deals with it
  };

  GradientsInFlight() = default;  // nothing is in flight
  GradientsInFlight(const std::vector<UnitSizes>& units, const MeshShape& mesh, const FullyShardOptions& options,
                    Accumulation accumulation);

  // Of the device, in the backward passes of a run, which all have these events: one moment each. The forward pass
  // comes before the first event, beside what the pass before has left.
  std::vector<Moment> moments(const std::vector<GradientEvent>& events) const;
  // The most on the device where gradients come in the opposite order of the units; the root's first, and last.
  std::int64_t device() const;
  // With the results of the optimizer on their way back.
  std::int64_t host() const { return host_; }

 private:
  struct Sizes {                                                       // of a unit's gradient on the device
    std::int64_t from_first = 0, from_complete = 0, from_reduced = 0;  // by when there is memory for it
    std::int64_t replicated = 0;  // as it is summed over the replicas, where that takes another buffer; else 0
    std::size_t in_flight = 0;    // reductions that may be under way once its own is
    std::int64_t reduced() const { return from_first + from_complete + from_reduced; }
    std::int64_t kept() const { return replicated > 0 ? replicated : reduced(); }
  };
  class Flight;

  void add_kept(const MeshShape& mesh, std::int64_t summed, Sizes& sizes) const;
  void add_passing(const MeshShape& mesh, const FlatSizes& flat, std::int64_t summed, Sizes& sizes) const;

  std::vector<Sizes> units_;
  std::size_t root_ = 0;
  bool replicas_ = false;   // sum each reduction's shards
  std::size_t copies_ = 0;  // to the host, that are not waited for
  std::int64_t host_ = 0;
};

}  // namespace shoal::fsdp
