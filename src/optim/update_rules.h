// One formula an optimizer, for one element: shared by the loops over host memory and by kernels on a device.
//
// A rule holds its coefficients in the element type, worked out once a step, and updates a parameter and its state
// from a gradient. The formulas and their order of operations are those of torch.optim (PyTorch 2.11, the
// single-tensor variants), so that results agree with it to rounding.
#pragma once

#include <cmath>
#include <cstdint>

#include "optim/optimizer.h"

#ifdef __CUDACC__
#define SHOAL_HOST_DEVICE __host__ __device__ __forceinline__
#else
#define SHOAL_HOST_DEVICE inline __attribute__((always_inline))
#endif

namespace shoal::optim {

SHOAL_HOST_DEVICE float square_root(float x) { return sqrtf(x); }
SHOAL_HOST_DEVICE double square_root(double x) { return sqrt(x); }

// param -= lr * grad
template <typename T>
struct SgdRule {
  static constexpr int kStates = 0;
  T grad_scale, weight_decay, lr;

  SgdRule(const OptimizerOptions& o, std::int64_t, double step_lr, double scale)
      : grad_scale(T(scale)), weight_decay(T(o.weight_decay)), lr(T(step_lr)) {}

  SHOAL_HOST_DEVICE void operator()(T& param, T raw_grad) const {
    const T grad = raw_grad * grad_scale + weight_decay * param;
    param -= lr * grad;
  }
};

// Sutskever et al. 2013, without dampening: momentum_buffer starts as zeros, which makes it the gradient at step 1.
template <typename T>
struct MomentumRule {
  static constexpr int kStates = 1;
  T grad_scale, weight_decay, lr, momentum;

  MomentumRule(const OptimizerOptions& o, std::int64_t, double step_lr, double scale)
      : grad_scale(T(scale)), weight_decay(T(o.weight_decay)), lr(T(step_lr)), momentum(T(o.momentum)) {}

  SHOAL_HOST_DEVICE void operator()(T& param, T raw_grad, T& momentum_buffer) const {
    const T grad = raw_grad * grad_scale + weight_decay * param;
    momentum_buffer = momentum_buffer * momentum + grad;
    param -= lr * momentum_buffer;
  }
};

// Kingma, Ba 2015; with `kDecoupled` the weight decay of Loshchilov, Hutter 2019 (AdamW).
template <typename T, bool kDecoupled>
struct AdamRule {
  static constexpr int kStates = 2;
  T grad_scale, weight_decay, shrink, one_minus_beta1, beta2, one_minus_beta2, step_size, correction2_sqrt, eps;

  AdamRule(const OptimizerOptions& o, std::int64_t step, double lr, double scale)
      : grad_scale(T(scale)),
        weight_decay(T(o.weight_decay)),
        shrink(T(1 - lr * o.weight_decay)),
        one_minus_beta1(T(1 - o.beta1)),
        beta2(T(o.beta2)),
        one_minus_beta2(T(1 - o.beta2)),
        step_size(T(lr / (1 - std::pow(o.beta1, double(step))))),
        correction2_sqrt(T(std::sqrt(1 - std::pow(o.beta2, double(step))))),
        eps(T(o.eps)) {}

  SHOAL_HOST_DEVICE void operator()(T& param, T raw_grad, T& exp_avg, T& exp_avg_sq) const {
    T grad = raw_grad * grad_scale;
    if constexpr (kDecoupled) {
      param *= shrink;
    } else {
      grad += weight_decay * param;
    }
    exp_avg += one_minus_beta1 * (grad - exp_avg);
    exp_avg_sq = exp_avg_sq * beta2 + one_minus_beta2 * grad * grad;
    param -= step_size * exp_avg / (square_root(exp_avg_sq) / correction2_sqrt + eps);
  }
};

// Zeiler 2012.
template <typename T>
struct AdadeltaRule {
  static constexpr int kStates = 2;
  T grad_scale, weight_decay, lr, rho, one_minus_rho, eps;

  AdadeltaRule(const OptimizerOptions& o, std::int64_t, double step_lr, double scale)
      : grad_scale(T(scale)),
        weight_decay(T(o.weight_decay)),
        lr(T(step_lr)),
        rho(T(o.rho)),
        one_minus_rho(T(1 - o.rho)),
        eps(T(o.adadelta_eps)) {}

  SHOAL_HOST_DEVICE void operator()(T& param, T raw_grad, T& square_avg, T& acc_delta) const {
    const T grad = raw_grad * grad_scale + weight_decay * param;
    square_avg = square_avg * rho + one_minus_rho * grad * grad;
    const T delta = square_root(acc_delta + eps) / square_root(square_avg + eps) * grad;
    acc_delta = acc_delta * rho + one_minus_rho * delta * delta;
    param -= lr * delta;
  }
};

}  // namespace shoal::optim
