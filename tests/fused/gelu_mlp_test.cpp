#include "fused/gelu_mlp.h"

#include "fused/compare.h"
#include "fused/products.h"

namespace shoal::testing {
namespace {

using fused::MlpWeights;
using fused::WeightLayout;
using fused::products::Epilogues;

struct Inputs {
  Twin x, weight_in, bias_in, weight_out, bias_out, residual, grad;
  WeightLayout layout;

  MlpWeights device() const { return {weight_in.device, bias_in.device, weight_out.device, bias_out.device, layout}; }
  MlpWeights host() const { return {weight_in.host, bias_in.host, weight_out.host, bias_out.host, layout}; }
  std::vector<std::pair<std::string, Twin>> named() const {
    return {{"x", x},
            {"weight_in", weight_in},
            {"bias_in", bias_in},
            {"weight_out", weight_out},
            {"bias_out", bias_out},
            {"residual", residual}};
  }
};

Inputs draw_inputs(std::vector<std::int64_t> batch, std::int64_t width, std::int64_t inner, bool residual,
                   WeightLayout layout, at::ScalarType dtype) {
  batch.push_back(width);
  const auto draw = [&](at::IntArrayRef sizes, double scale) {
    return Twin(at::randn(sizes, at::kDouble) * scale, dtype);
  };
  const double in_scale = 1 / std::sqrt(width), out_scale = 1 / std::sqrt(inner);
  const bool out_in = layout == WeightLayout::out_in;
  return {draw(batch, 1.5),
          draw(out_in ? at::IntArrayRef{inner, width} : at::IntArrayRef{width, inner}, in_scale),
          draw({inner}, 0.5),
          draw(out_in ? at::IntArrayRef{width, inner} : at::IntArrayRef{inner, width}, out_scale),
          draw({width}, 0.5),
          residual ? draw(batch, 1) : Twin(),
          Twin(at::randn(batch, at::kDouble), dtype, false),
          layout};
}

at::Tensor on_device(const Inputs& in) { return fused::gelu_mlp(in.x.device, in.device(), in.residual.device); }
at::Tensor on_host(const Inputs& in) { return fused::reference::gelu_mlp(in.x.host, in.host(), in.residual.host); }

// Several roundings one after the other: of the first product, of the activation, of the result.
double bound_of(at::ScalarType dtype) { return 2.5 * rounding_of(dtype); }

TEST(GeluMlp, OnTheCpuIsLibTorchsToTheBit) {
  torch::manual_seed(7);
  for (const at::ScalarType dtype : {at::kFloat, at::kDouble, at::kBFloat16}) {
    const auto leaf = [&](std::vector<std::int64_t> sizes) {
      return at::randn(sizes, at::TensorOptions(dtype)).requires_grad_();
    };
    const at::Tensor x = leaf({3, 5, 12}), w1 = leaf({12, 48}), b1 = leaf({48}), w2 = leaf({48, 12}), b2 = leaf({12});
    const auto run = [&](const at::Tensor& y) {
      auto all = torch::autograd::grad({y}, {x, w1, b1, w2, b2}, {at::ones_like(y)});
      all.push_back(y);
      return all;
    };
    const auto ours = run(fused::gelu_mlp(x, {w1, b1, w2, b2, WeightLayout::in_out}, x));
    const at::Tensor inner = at::gelu(at::addmm(b1, x.reshape({-1, 12}), w1).view({3, 5, 48}), "tanh");
    const auto theirs = run(x + at::addmm(b2, inner.reshape({-1, 48}), w2).view({3, 5, 12}));
    for (std::size_t i = 0; i < ours.size(); ++i) EXPECT_TRUE(at::equal(ours[i], theirs[i])) << i;
  }
}

TEST(GeluMlp, OnAGpuIsTheReferenceInFp64) {
  SHOAL_NEEDS_GPU();
  torch::manual_seed(1);
  const std::vector<std::tuple<std::vector<std::int64_t>, std::int64_t, std::int64_t>> shapes{
      {{1}, 1, 1},     {{}, 8, 32},      {{2, 17}, 48, 192}, {{33}, 30, 120},
      {{3, 5}, 7, 13}, {{0, 4}, 16, 64}, {{300}, 64, 100}};
  for (const at::ScalarType dtype : kTypes)
    for (const WeightLayout layout : {WeightLayout::out_in, WeightLayout::in_out})
      for (const bool residual : {false, true})
        for (const auto& [batch, width, inner] : shapes) {
          SCOPED_TRACE(std::string(c10::toString(dtype)) + " " + std::to_string(width) + " " + std::to_string(inner) +
                       (layout == WeightLayout::in_out ? " in_out" : "") + (residual ? " residual" : ""));
          const Inputs in = draw_inputs(batch, width, inner, residual, layout, dtype);
          poison_memory();
          const at::Tensor y = on_device(in), expected = on_host(in);
          expect_close(y, expected, bound_of(dtype), "y");
          poison_memory();
          y.backward(in.grad.device);
          expected.backward(in.grad.host);
          expect_gradients_close(in.named(), bound_of(dtype));
        }
}

TEST(GeluMlp, EachWayOfTakingItIsTheReference) {
  SHOAL_NEEDS_GPU();
  torch::manual_seed(2);
  const torch::NoGradGuard no_gradient;
  for (const WeightLayout layout : {WeightLayout::out_in, WeightLayout::in_out})
    for (int way = 0; way < 8; ++way) {
      SCOPED_TRACE(way);
      const Epilogues epilogues{(way & 1) != 0, (way & 2) != 0, (way & 4) != 0};
      const Inputs in = draw_inputs({70}, 48, 192, true, layout, at::kBFloat16);
      at::Tensor expected;
      {
        const torch::AutoGradMode on(true);
        expected = on_host(in);
        expected.backward(in.grad.host);
      }
      const auto forward = fused::products::gelu_mlp(in.x.device, in.device(), in.residual.device, true, epilogues);
      expect_close(forward.y, expected, bound_of(at::kBFloat16), "y");
      const auto gradients = fused::products::gelu_mlp_backward(in.grad.device, in.x.device, forward.inner, in.device(),
                                                                {true, true, true, true, true}, epilogues);
      for (std::size_t i = 0; i < gradients.size(); ++i)
        expect_close(gradients[i], in.named()[i].second.host.grad(), bound_of(at::kBFloat16), in.named()[i].first);
    }
}

TEST(GeluMlp, ComputesTheGradientsThatAreWanted) {
  SHOAL_NEEDS_GPU();
  for (const int frozen : {1, 2, 4, 8, 16, 30, 31, 27, 15}) {
    SCOPED_TRACE(frozen);
    torch::manual_seed(3);
    const Inputs in = draw_inputs({4, 10}, 32, 128, true, WeightLayout::in_out, at::kBFloat16);
    int index = 0;
    for (const auto& [name, twin] : in.named()) {
      const bool wanted = (frozen >> index++ & 1) == 0;
      twin.device.requires_grad_(wanted);
      twin.host.requires_grad_(wanted);
    }
    on_device(in).backward(in.grad.device);
    on_host(in).backward(in.grad.host);
    expect_gradients_close(in.named(), bound_of(at::kBFloat16));
    for (const auto& [name, twin] : in.named())
      EXPECT_EQ(twin.device.grad().defined(), twin.host.grad().defined()) << name;
  }
}

TEST(GeluMlp, IsTheSameWithoutGradients) {
  SHOAL_NEEDS_GPU();
  const Inputs in = draw_inputs({50}, 64, 256, true, WeightLayout::in_out, at::kBFloat16);
  const at::Tensor y = on_device(in);
  {
    const torch::NoGradGuard none;
    expect_close(on_device(in), y, rounding_of(at::kBFloat16), "without gradients");
  }
  const c10::InferenceMode inference;
  expect_close(on_device(in), y, rounding_of(at::kBFloat16), "in inference mode");
}

// What is kept for backward is x and the first product, not the activation.
TEST(GeluMlp, KeepsOneTensorOfTheInnerWidth) {
  SHOAL_NEEDS_GPU();
  const Inputs in = draw_inputs({1024}, 256, 2048, false, WeightLayout::in_out, at::kBFloat16);
  on_device(in);  // the workspace and the choice of algorithms are there then
  const auto allocated = [] {
    torch::cuda::synchronize();
    return at::getDeviceAllocator(at::kCUDA)->getDeviceStats(0).requested_bytes[0].current;
  };
  const std::int64_t before = allocated(), inner = 1024 * 2048 * 2, result = 1024 * 256 * 2;
  const at::Tensor y = on_device(in);
  EXPECT_EQ(allocated() - before, inner + result);
}

}  // namespace
}  // namespace shoal::testing
