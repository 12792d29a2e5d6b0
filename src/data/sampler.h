// Which samples a step is made of, and which of them a rank takes.
//
// An epoch is one pass over a permutation of the dataset that depends on (seed, epoch) alone. A step consumes the next
// samples of that order; its micro-steps divide the step's samples, and the ranks divide each micro-step's. So any
// number of ranks sees the same samples in a step of the same global batch size, and a run goes on exactly where it
// stopped, from (epoch, samples consumed), with any number of ranks and any batch size.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "shard/shard_layout.h"

namespace shoal::data {

struct SamplePosition {
  std::int64_t epoch = 0;     // from 0
  std::int64_t consumed = 0;  // samples of the epoch's order that steps have used; < the dataset's size
  bool operator==(const SamplePosition&) const = default;
};

// `whole` cut into `parts` consecutive ranges whose sizes differ by one at most, larger ones first: number `index`.
// Ranges are empty where there are fewer elements than parts.
Range part_of(Range whole, std::int64_t index, std::int64_t parts);

// Fisher-Yates over counter-based random numbers: the same on every platform and in every release. docs/training.md
// gives it in Python.
std::vector<std::int64_t> permutation(std::int64_t size, std::uint64_t seed, std::int64_t epoch);

class Sampler {
 public:
  // Without `shuffle`, the order is 0, 1, 2, … in every epoch. dataset_size >= 1.
  Sampler(std::int64_t dataset_size, std::uint64_t seed, bool shuffle);

  std::int64_t dataset_size() const { return size_; }
  // Where in the epoch's order the step at `position` finds its samples: `global_batch` of them, fewer at the end.
  Range step_range(const SamplePosition& position, std::int64_t global_batch) const;
  // The position after that step.
  SamplePosition advance(const SamplePosition& position, std::int64_t global_batch) const;
  // Numbers of the samples at these places of the epoch's order. Valid until the next call.
  std::span<const std::int64_t> samples(std::int64_t epoch, Range places);

 private:
  std::int64_t size_;
  std::uint64_t seed_;
  bool shuffle_;
  std::int64_t ordered_epoch_ = -1;  // the one that order_ belongs to
  std::vector<std::int64_t> order_;
};

}  // namespace shoal::data
