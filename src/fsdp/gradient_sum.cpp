#include "fsdp/gradient_sum.h"

#include <ATen/core/grad_mode.h>

#include <utility>

#include "core/check.h"

namespace shoal::fsdp {

at::Tensor GradientSum::merged(at::Tensor sum, at::Tensor term) {
  sum.add_(term);
  pool_->release(std::move(term));
  return sum;
}

void GradientSum::add(at::Tensor term) {
  SHOAL_CHECK(!closed_ || !tree_, InternalError, "run() was called between grad_norm() and the optimizer's step");
  const at::NoGradGuard no_grad;
  int level = 0;
  for (; !parts_.empty() && (!tree_ || parts_.back().level == level); ++level) {
    term = merged(std::move(parts_.back().sum), std::move(term));
    parts_.pop_back();
  }
  if (term.scalar_type() != dtype_) {
    at::Tensor converted = pool_->acquire(term.numel(), dtype_);
    converted.copy_(term);
    pool_->release(std::exchange(term, std::move(converted)));
  }
  parts_.push_back({level, std::move(term)});
}

const at::Tensor& GradientSum::value() {
  static const at::Tensor none;
  if (parts_.empty()) return none;
  const at::NoGradGuard no_grad;
  for (closed_ = true; parts_.size() > 1;) {
    at::Tensor newest = std::move(parts_.back().sum);
    parts_.pop_back();
    parts_.back().sum = merged(std::move(parts_.back().sum), std::move(newest));
  }
  return parts_[0].sum;
}

void GradientSum::clear() {
  for (Part& part : parts_) pool_->release(std::move(part.sum));
  parts_.clear();
  closed_ = false;
}

}  // namespace shoal::fsdp
