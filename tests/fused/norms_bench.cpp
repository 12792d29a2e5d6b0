// What norms, SwiGLU and rotary positions cost in bf16, and how near to the memory's speed that is. Run with
// --gtest_also_run_disabled_tests.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include "fused/norms_cases.h"
#include "fused/rope.h"
#include "fused/swiglu.h"
#include "support/gpu.h"

namespace shoal::testing {
namespace {

using at::Tensor;

// `arrays` of `one`'s size are read or written by a call.
void report(const std::string& what, const Tensor& one, double arrays, const std::function<void()>& call) {
  const double ms = gpu_cost_of(call, 50).milliseconds;
  const double bytes = arrays * static_cast<double>(one.numel()) * static_cast<double>(one.element_size());
  fmt::print("{:64} {:9.1f} us {:8.0f} GB/s\n", what, 1e3 * ms, bytes / ms / 1e6);
}

// Backward alone, again and again through one graph.
std::function<void()> backward_of(const std::vector<Tensor>& roots, const std::vector<Tensor>& leaves) {
  std::vector<Tensor> grads;
  for (const Tensor& root : roots) grads.push_back(at::randn_like(root.detach()));
  return [=] { (void)torch::autograd::grad(roots, leaves, grads, /*retain_graph=*/true); };
}

void report_norm(const NormCase& c) {
  const NormInputs in = norm_inputs(c, at::kCUDA);
  const auto forward = [&](auto norm) {
    return [&, norm] {
      const torch::NoGradGuard no_grad;
      (void)norm(c, in);
    };
  };
  report(c.name() + ", forward", in.x, c.add ? 4 : 2, forward(fused_norm));
  report("  LibTorch's", in.x, c.add ? 4 : 2, forward(reference_norm));
  std::vector<Tensor> leaves{in.x, in.weight};
  if (c.add) leaves.push_back(in.y);
  if (c.centred) leaves.push_back(in.bias);
  const auto roots = [&](const NormOutputs& out) {
    return c.add ? std::vector{out.sum, out.normed} : std::vector{out.normed};
  };
  report("  backward", in.x, c.add ? 4 : 3, backward_of(roots(fused_norm(c, in)), leaves));
  report("  LibTorch's", in.x, c.add ? 4 : 3, backward_of(roots(reference_norm(c, in)), leaves));
}

TEST(NormBench, DISABLED_Norms) {
  SHOAL_SKIP_WITHOUT_GPU();
  for (const bool add : {true, false}) {
    report_norm({.centred = true, .add = add, .rows = 32 * 1024, .width = 768, .type = at::kBFloat16});
    report_norm({.centred = true, .add = add, .rows = 8 * 1024, .width = 1600, .type = at::kBFloat16});
    report_norm({.centred = false, .add = add, .rows = 4096, .width = 4096, .type = at::kBFloat16});
    report_norm({.centred = true, .add = add, .rows = 16 * 1024, .width = 1024, .type = at::kBFloat16});
  }
}

TEST(NormBench, DISABLED_SwiGlu) {
  SHOAL_SKIP_WITHOUT_GPU();
  const auto options = at::TensorOptions(at::kCUDA).dtype(at::kBFloat16);
  const Tensor gate = at::randn({4096, 14336}, options).requires_grad_();
  const Tensor up = at::randn({4096, 14336}, options).requires_grad_();
  report("swiglu of 4096 x 14336, forward", gate, 3, [&] {
    const torch::NoGradGuard no_grad;
    (void)fused::swiglu(gate, up);
  });
  report("  backward", gate, 5, backward_of({fused::swiglu(gate, up)}, {gate, up}));
}

TEST(NormBench, DISABLED_Rotation) {
  SHOAL_SKIP_WITHOUT_GPU();
  const auto options = at::TensorOptions(at::kCUDA).dtype(at::kBFloat16);
  const Tensor cos = at::randn({4096, 128}, options), sin = at::randn({4096, 128}, options);
  for (const std::int64_t heads : {32, 8}) {
    const Tensor x = at::randn({1, 4096, heads, 128}, options).requires_grad_();
    report(fmt::format("rotation of 4096 x {} x 128, forward", heads), x, 2, [&] {
      const torch::NoGradGuard no_grad;
      (void)fused::rotate(x, cos, sin);
    });
    report("  backward", x, 2, backward_of({fused::rotate(x, cos, sin)}, {x}));
  }
}

}  // namespace
}  // namespace shoal::testing
