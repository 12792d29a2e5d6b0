// What a model is trained on: samples by number.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>

namespace shoal::data {

enum class Split { train, test };

struct Batch {
  at::Tensor inputs;   // first dimension: samples
  at::Tensor targets;  // likewise
  // How many targets are to be predicted, so that nobody has to wait for a GPU to learn it; -1: nobody counted.
  std::int64_t predicted = -1;
};

class Dataset {
 public:
  virtual ~Dataset() = default;
  virtual std::int64_t size() const = 0;  // samples, >= 1
  // The samples of these numbers in [0, size()), in this order, on the host. At least one. Safe to call from several
  // threads.
  virtual Batch batch(std::span<const std::int64_t> indices) const = 0;
  // The same for training in epoch `epoch` (from 0), for datasets whose samples look different each time (masks,
  // augmentation). What they look like depends on (seed, epoch, sample) alone; batch() is that of epoch 0.
  virtual Batch epoch_batch(std::int64_t /*epoch*/, std::span<const std::int64_t> indices) const {
    return batch(indices);
  }
  // Of the contents: equal on every rank, and after a restart.
  virtual std::uint32_t fingerprint() const = 0;
};

}  // namespace shoal::data
