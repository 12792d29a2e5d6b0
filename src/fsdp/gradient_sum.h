// The sum of the gradients that a flat parameter's shard got in the run()s of a step.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "fsdp/buffer_pool.h"

namespace shoal::fsdp {

class GradientSum {
 public:
  // Sums are kept in `dtype`, in buffers of `pool`, which must outlive this. `tree`: added up as a binary counter
  // counts, that is, adjacent terms are paired, then adjacent pairs, and so on. Terms that are such trees over 2^k
  // terms themselves (over the ranks) give the tree over all of these, so the sum does not depend on what is added here
  // and what among the ranks.
  GradientSum(BufferPool& pool, at::ScalarType dtype, bool tree) : pool_(&pool), dtype_(dtype), tree_(tree) {}

  bool empty() const { return parts_.empty(); }
  // Takes over `term`, a buffer of the pool of any floating type.
  void add(at::Tensor term);
  // The sum so far, where the next term is simply added to it, so that whoever makes the term may do that itself;
  // undefined for a tree, and where there is no term yet.
  at::Tensor running() const { return tree_ || parts_.empty() ? at::Tensor() : parts_[0].sum; }
  // Adds up what is left to add; undefined where there was no term. A tree takes no more terms after it: InternalError.
  const at::Tensor& value();
  void clear();

 private:
  // The sum of 2^level terms; without a tree there is one part of any number.
  struct Part {
    int level;
    at::Tensor sum;
  };
  at::Tensor merged(at::Tensor sum, at::Tensor term);

  BufferPool* pool_;
  at::ScalarType dtype_;
  bool tree_;
  bool closed_ = false;
  std::vector<Part> parts_;  // levels fall from front to back
};

}  // namespace shoal::fsdp
