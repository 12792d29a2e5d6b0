#include "fused/linear.h"

#include "fused/compare.h"

namespace shoal::testing {
namespace {

using fused::WeightLayout;

struct Case {
  std::vector<std::int64_t> batch;
  std::int64_t in, out;
  bool bias, residual;
  WeightLayout layout;
};

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const WeightLayout layout : {WeightLayout::out_in, WeightLayout::in_out})
    for (const int extras : {0, 1, 2, 3})
      for (const auto& [batch, in, out] :
           std::vector<std::tuple<std::vector<std::int64_t>, std::int64_t, std::int64_t>>{{{1}, 1, 1},
                                                                                          {{}, 8, 16},
                                                                                          {{5}, 7, 3},
                                                                                          {{2, 17}, 129, 257},
                                                                                          {{3, 1, 40}, 64, 96},
                                                                                          {{0, 4}, 16, 8},
                                                                                          {{200}, 48, 1001}})
        all.push_back({batch, in, out, (extras & 1) != 0, (extras & 2) != 0, layout});
  return all;
}

std::string name_of(const Case& c) {
  return std::to_string(c.in) + " to " + std::to_string(c.out) + (c.bias ? ", bias" : "") +
         (c.residual ? ", residual" : "") + (c.layout == WeightLayout::in_out ? ", in_out" : "");
}

struct Inputs {
  Twin x, weight, bias, residual, grad;
  std::vector<std::pair<std::string, Twin>> named() const {
    return {{"x", x}, {"weight", weight}, {"bias", bias}, {"residual", residual}};
  }
};

at::Tensor draw(std::vector<std::int64_t> sizes, double scale = 1) { return at::randn(sizes, at::kDouble) * scale; }

std::vector<std::int64_t> with(std::vector<std::int64_t> sizes, std::int64_t last) {
  sizes.push_back(last);
  return sizes;
}

Inputs draw_inputs(const Case& c, at::ScalarType dtype) {
  const double scale = 1 / std::sqrt(static_cast<double>(c.in));
  const bool out_in = c.layout == WeightLayout::out_in;
  return {Twin(draw(with(c.batch, c.in)), dtype),
          Twin(draw(out_in ? std::vector{c.out, c.in} : std::vector{c.in, c.out}, scale), dtype),
          c.bias ? Twin(draw({c.out}), dtype) : Twin(), c.residual ? Twin(draw(with(c.batch, c.out)), dtype) : Twin(),
          Twin(draw(with(c.batch, c.out)), dtype, false)};
}

at::Tensor on_device(const Inputs& in, WeightLayout layout) {
  return fused::linear(in.x.device, in.weight.device, in.bias.device, in.residual.device, layout);
}
at::Tensor on_host(const Inputs& in, WeightLayout layout) {
  return fused::reference::linear(in.x.host, in.weight.host, in.bias.host, in.residual.host, layout);
}

TEST(Linear, OnTheCpuIsLibTorchsToTheBit) {
  torch::manual_seed(7);
  for (const at::ScalarType dtype : {at::kFloat, at::kDouble, at::kBFloat16}) {
    const auto leaf = [&](std::vector<std::int64_t> sizes) {
      return at::randn(sizes, at::TensorOptions(dtype)).requires_grad_();
    };
    const at::Tensor x = leaf({3, 5, 17}), weight = leaf({33, 17}), bias = leaf({33}), residual = leaf({3, 5, 33});
    const auto run = [&](const at::Tensor& y) {
      auto all = torch::autograd::grad({y}, {x, weight, bias}, {at::ones_like(y)});
      all.push_back(y);
      return all;
    };
    const auto ours = run(fused::linear(x, weight, bias, residual, WeightLayout::out_in));
    const auto theirs = run(residual + at::linear(x, weight, bias));
    const auto conv = run(fused::linear(x, weight.t(), bias, {}, WeightLayout::in_out));
    const auto addmm = run(at::addmm(bias, x.reshape({-1, 17}), weight.t()).view({3, 5, 33}));
    for (std::size_t i = 0; i < ours.size(); ++i) {
      EXPECT_TRUE(at::equal(ours[i], theirs[i])) << i;
      EXPECT_TRUE(at::equal(conv[i], addmm[i])) << i;
    }
  }
}

TEST(Linear, OnAGpuIsTheReferenceInFp64) {
  SHOAL_NEEDS_GPU();
  torch::manual_seed(1);
  for (const at::ScalarType dtype : kTypes)
    for (const Case& c : cases()) {
      SCOPED_TRACE(std::string(c10::toString(dtype)) + " " + name_of(c));
      const Inputs in = draw_inputs(c, dtype);
      poison_memory();
      const at::Tensor y = on_device(in, c.layout), expected = on_host(in, c.layout);
      EXPECT_EQ(y.scalar_type(), dtype);
      expect_close(y, expected, rounding_of(dtype), "y");
      poison_memory();
      y.backward(in.grad.device);
      expected.backward(in.grad.host);
      expect_gradients_close(in.named(), rounding_of(dtype));
    }
}

TEST(Linear, TakesParametersAndInputsFromTheMiddleOfOtherMemory) {
  SHOAL_NEEDS_GPU();
  torch::manual_seed(2);
  for (const std::int64_t offset : {1, 4, 8}) {
    const Twin flat(draw({2000}), at::kBFloat16), wide(draw({6, 9, 100}), at::kBFloat16);
    const auto run = [&](const at::Tensor& parameters, const at::Tensor& x) {
      const at::Tensor weight = parameters.narrow(0, offset, 24 * 40).view({24, 40});
      const at::Tensor bias = parameters.narrow(0, offset + 24 * 40, 24);
      // Batch and time swapped, and a part of each row.
      return fused::linear(x.transpose(0, 1).narrow(2, offset, 40), weight, bias, {}, WeightLayout::out_in);
    };
    const at::Tensor y = run(flat.device, wide.device), expected = run(flat.host, wide.host);
    expect_close(y, expected, rounding_of(at::kBFloat16), "y");
    y.sum().backward();  // an expanded gradient
    expected.sum().backward();
    expect_gradients_close({{"parameters", flat}, {"x", wide}}, 2 * rounding_of(at::kBFloat16));
  }
}

TEST(Linear, ComputesTheGradientsThatAreWanted) {
  SHOAL_NEEDS_GPU();
  const Case c{{4, 10}, 32, 24, true, true, WeightLayout::out_in};
  for (const int frozen : {1, 2, 3, 4, 7, 8, 11, 14}) {
    SCOPED_TRACE(frozen);
    torch::manual_seed(3);
    const Inputs in = draw_inputs(c, at::kBFloat16);
    int index = 0;
    for (const auto& [name, twin] : in.named()) {
      const bool wanted = (frozen >> index++ & 1) == 0;
      twin.device.requires_grad_(wanted);
      twin.host.requires_grad_(wanted);
    }
    on_device(in, c.layout).backward(in.grad.device);
    on_host(in, c.layout).backward(in.grad.host);
    expect_gradients_close(in.named(), rounding_of(at::kBFloat16));
    for (const auto& [name, twin] : in.named())
      EXPECT_EQ(twin.device.grad().defined(), twin.host.grad().defined()) << name;
  }
}

TEST(Linear, IsTheSameWithoutGradients) {
  SHOAL_NEEDS_GPU();
  const Inputs in = draw_inputs({{30}, 64, 40, true, true, WeightLayout::in_out}, at::kBFloat16);
  const at::Tensor y = on_device(in, WeightLayout::in_out);
  {
    const torch::NoGradGuard none;
    EXPECT_TRUE(at::equal(on_device(in, WeightLayout::in_out), y));
  }
  const c10::InferenceMode inference;
  EXPECT_TRUE(at::equal(on_device(in, WeightLayout::in_out), y));
}

TEST(Linear, WhatTheKernelsAreNotForIsLibTorchs) {
  SHOAL_NEEDS_GPU();
  const at::Tensor x = at::randn({4, 8}, at::TensorOptions(at::kCUDA).dtype(at::kDouble)),
                   weight = at::randn({6, 8}, x.options());
  EXPECT_TRUE(at::equal(fused::linear(x, weight, {}, {}, WeightLayout::out_in), at::linear(x, weight)));
  const at::Tensor one_row = at::randn({6}, x.options().dtype(at::kFloat));  // broadcast
  const at::Tensor y = fused::linear(x.to(at::kFloat), weight.to(at::kFloat), {}, one_row, WeightLayout::out_in);
  expect_close(y, at::linear(x, weight) + one_row, rounding_of(at::kFloat), "y");
  EXPECT_THROW(fused::linear(x.to(at::kHalf), weight.to(at::kFloat), {}, {}, WeightLayout::out_in), c10::Error);
}

TEST(Linear, HasNoSecondGradient) {
  SHOAL_NEEDS_GPU();
  const Inputs in = draw_inputs({{4}, 8, 8, false, false, WeightLayout::out_in}, at::kFloat);
  const at::Tensor y = on_device(in, WeightLayout::out_in);
  EXPECT_THROW(torch::autograd::grad({y}, {in.x.device}, {at::ones_like(y)}, {}, /*create_graph=*/true),
               std::exception);
}

TEST(Linear, DeterministicRunsAreEqualToTheBit) {
  SHOAL_NEEDS_GPU();
  at::globalContext().setDeterministicAlgorithms(true, false);
  const Case c{{777}, 320, 192, true, true, WeightLayout::in_out};
  std::vector<at::Tensor> first;
  for (int run = 0; run < 3; ++run) {
    torch::manual_seed(5);
    const Inputs in = draw_inputs(c, at::kBFloat16);
    const at::Tensor y = on_device(in, c.layout);
    y.backward(in.grad.device);
    const std::vector<at::Tensor> all{y, in.x.device.grad(), in.weight.device.grad(), in.bias.device.grad()};
    if (first.empty()) first = all;
    for (std::size_t i = 0; i < all.size(); ++i) EXPECT_TRUE(at::equal(all[i], first[i])) << i;
  }
  at::globalContext().setDeterministicAlgorithms(false, false);
}

}  // namespace
}  // namespace shoal::testing
