// The fused output matrix and loss against the same in float64: losses, gradients, chunks, ignored places, odd sizes.
#include "fused/linear_cross_entropy.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cmath>
#include <limits>

#include "fused/chunked_cross_entropy.h"
#include "support/gpu.h"

namespace shoal::fused {
namespace {

using testing::poison_gpu_memory;
using testing::relative_error;

constexpr std::int64_t kIgnored = -100;

struct Shape {
  std::int64_t count, width, vocabulary;
};

struct Inputs {
  at::Tensor x, weight, targets;
};

// Logits of a standard deviation near 2; every fifth place, but the first, is ignored.
Inputs make_inputs(const Shape& shape, at::ScalarType type, at::Device device, std::uint64_t seed) {
  at::Generator generator = at::detail::createCPUGenerator(seed);
  const at::Tensor x = at::randn({shape.count, shape.width}, generator, at::kFloat);
  const at::Tensor weight = at::randn({shape.vocabulary, shape.width}, generator, at::kFloat) *
                            (2 / std::sqrt(static_cast<double>(shape.width)));
  at::Tensor targets = at::randint(shape.vocabulary, {shape.count}, generator, at::kLong);
  for (std::int64_t i = 4; i < shape.count; i += 5) targets[i] = kIgnored;
  const auto there = [&](const at::Tensor& values) { return values.to(device, type).requires_grad_(); };
  return {there(x), there(weight), targets.to(device)};
}

struct Outputs {
  at::Tensor loss, x, weight;  // and gradients
};

// The loss times `factor`, backwards.
template <typename Loss>
Outputs run(const Loss& loss_of, const Inputs& inputs, double factor = 1) {
  const at::Tensor loss = loss_of(inputs.x, inputs.weight, inputs.targets, kIgnored);
  (loss * factor).backward();
  return {loss.detach(), inputs.x.grad(), inputs.weight.grad()};
}

Outputs run_exact(const Inputs& inputs, double factor = 1) {
  const auto exact = [](const at::Tensor& t) { return t.detach().to(at::kCPU, at::kDouble).requires_grad_(); };
  return run(reference::linear_cross_entropy, {exact(inputs.x), exact(inputs.weight), inputs.targets.cpu()}, factor);
}

// Rounding of the logits moves a probability by |logit| 2^-9 in bf16, 2^-12 in fp16.
double gradient_bound(at::ScalarType type) { return type == at::kFloat ? 1e-5 : type == at::kHalf ? 2e-3 : 1.5e-2; }

double loss_bound(at::ScalarType type) { return type == at::kFloat ? 1e-6 : type == at::kHalf ? 1e-3 : 4e-3; }

void expect_close(const Outputs& got, const Outputs& expected, at::ScalarType type, const std::string& where) {
  EXPECT_EQ(got.loss.scalar_type(), at::kFloat) << where;
  EXPECT_EQ(got.loss.dim(), 0) << where;
  EXPECT_LE(relative_error(got.loss, expected.loss), loss_bound(type)) << where;
  for (const auto& [name, ours, exact] :
       {std::tuple("x", got.x, expected.x), std::tuple("weight", got.weight, expected.weight)}) {
    ASSERT_TRUE(ours.defined()) << where << ", " << name;
    EXPECT_EQ(ours.scalar_type(), type) << where << ", " << name;
    EXPECT_LE(relative_error(ours, exact), gradient_bound(type)) << where << ", " << name;
  }
}

TEST(LinearCrossEntropy, OnTheCpuIsTheReferenceToTheBit) {
  for (const auto type : {at::kFloat, at::kDouble, at::kBFloat16}) {
    const Shape shape{13, 24, 61};
    const Outputs ours = run(linear_cross_entropy, make_inputs(shape, type, at::kCPU, 1));
    const Outputs theirs = run(reference::linear_cross_entropy, make_inputs(shape, type, at::kCPU, 1));
    EXPECT_TRUE(at::equal(ours.loss, theirs.loss));
    EXPECT_TRUE(at::equal(ours.x, theirs.x));
    EXPECT_TRUE(at::equal(ours.weight, theirs.weight));
  }
}

class LinearCrossEntropyOnGpu : public ::testing::TestWithParam<at::ScalarType> {
 protected:
  void SetUp() override {
    SHOAL_SKIP_WITHOUT_GPU();
    poison_gpu_memory();
  }
  static at::ScalarType type() { return GetParam(); }
  static Inputs inputs(const Shape& shape, std::uint64_t seed = 1) {
    return make_inputs(shape, type(), at::kCUDA, seed);
  }
};

// Odd vocabularies and widths, one row, a row that shared memory does not hold.
TEST_P(LinearCrossEntropyOnGpu, LossAndGradientsAreThoseOfFloat64) {
  for (const Shape& shape : {Shape{1, 8, 3}, Shape{7, 16, 61}, Shape{19, 13, 67}, Shape{130, 72, 1000},
                             Shape{33, 24, 50257}, Shape{5, 32, 128256}}) {
    for (const std::uint64_t seed : {1, 2}) {
      const Inputs given = inputs(shape, seed);
      expect_close(run(linear_cross_entropy, given), run_exact(given), type(),
                   fmt::format("{} x {} x {}, seed {}", shape.count, shape.width, shape.vocabulary, seed));
    }
  }
}

TEST_P(LinearCrossEntropyOnGpu, ChunksAddUp) {
  const Inputs given = inputs({130, 72, 1000});
  const Outputs exact = run_exact(given);
  const at::NoGradGuard no_grad;
  for (const std::int64_t rows : {1, 16, 64, 128, 1000}) {
    const std::int64_t bytes = rows * 1024 * given.x.element_size();
    const CrossEntropyResult got =
        chunked_cross_entropy({given.x, given.weight, given.targets, kIgnored, true, true}, bytes);
    const std::string where = fmt::format("{} rows at once", rows);
    EXPECT_LE(relative_error(got.loss, exact.loss), loss_bound(type())) << where;
    EXPECT_LE(relative_error(got.x, exact.x), gradient_bound(type())) << where;
    EXPECT_LE(relative_error(got.weight, exact.weight), gradient_bound(type())) << where;
  }
}

TEST_P(LinearCrossEntropyOnGpu, WhatComesInMultipliesTheGradients) {
  for (const double factor : {0.37, 1e-3, 0.0}) {
    const Inputs given = inputs({20, 16, 61});
    const Outputs got = run(linear_cross_entropy, given, factor), exact = run_exact(given, factor);
    EXPECT_LE(relative_error(got.x, exact.x), gradient_bound(type())) << factor;
    EXPECT_LE(relative_error(got.weight, exact.weight), gradient_bound(type())) << factor;
  }
}

TEST_P(LinearCrossEntropyOnGpu, OnlyWhatIsWantedIsComputed) {
  Inputs given = inputs({20, 16, 61});
  const Outputs exact = run_exact(given);
  for (const bool frozen_weight : {false, true}) {
    const Inputs one{given.x.detach().requires_grad_(frozen_weight),
                     given.weight.detach().requires_grad_(!frozen_weight), given.targets};
    const Outputs got = run(linear_cross_entropy, one);
    EXPECT_EQ(got.x.defined(), frozen_weight);
    EXPECT_EQ(got.weight.defined(), !frozen_weight);
    const at::Tensor& ours = frozen_weight ? got.x : got.weight;
    EXPECT_LE(relative_error(ours, frozen_weight ? exact.x : exact.weight), gradient_bound(type()));
  }
  const at::NoGradGuard no_grad;
  const at::Tensor loss = linear_cross_entropy(given.x, given.weight, given.targets, kIgnored);
  EXPECT_FALSE(loss.requires_grad());
  EXPECT_LE(relative_error(loss, exact.loss), loss_bound(type()));
}

TEST_P(LinearCrossEntropyOnGpu, WithoutAnyTargetEverythingIsZero) {
  for (const std::int64_t count : {0, 6}) {
    const Inputs given = inputs({count, 16, 61});
    given.targets.fill_(kIgnored);
    const Outputs got = run(linear_cross_entropy, given);
    EXPECT_EQ(got.loss.item<double>(), 0);
    EXPECT_EQ(got.x.count_nonzero().item<std::int64_t>(), 0);
    EXPECT_EQ(got.weight.sizes(), given.weight.sizes());
    EXPECT_EQ(got.weight.count_nonzero().item<std::int64_t>(), 0);
  }
}

TEST_P(LinearCrossEntropyOnGpu, GivesTheSameBitsAgain) {
  const Outputs first = run(linear_cross_entropy, inputs({130, 72, 1000}));
  for (int again = 0; again < 3; ++again) {
    const Outputs other = run(linear_cross_entropy, inputs({130, 72, 1000}));
    EXPECT_TRUE(at::equal(first.loss, other.loss));
    EXPECT_TRUE(at::equal(first.x, other.x));
    EXPECT_TRUE(at::equal(first.weight, other.weight));
  }
}

TEST_P(LinearCrossEntropyOnGpu, LargeLogitsDoNotOverflow) {
  Inputs given = inputs({20, 16, 61});
  given.weight = (given.weight.detach() * 100).requires_grad_();
  const Outputs got = run(linear_cross_entropy, given), exact = run_exact(given);
  EXPECT_TRUE(std::isfinite(got.loss.item<double>()));
  EXPECT_LE(relative_error(got.loss, exact.loss), loss_bound(type()));
}

TEST_P(LinearCrossEntropyOnGpu, ATargetOutsideOfTheVocabularyMakesTheLossNaN) {
  const Inputs given = inputs({6, 16, 61});
  given.targets[2] = 61;
  EXPECT_TRUE(std::isnan(run(linear_cross_entropy, given).loss.item<double>()));
}

INSTANTIATE_TEST_SUITE_P(Types, LinearCrossEntropyOnGpu, ::testing::Values(at::kFloat, at::kHalf, at::kBFloat16),
                         [](const auto& type) { return std::string(c10::toString(type.param)); });

// Of three products: the logits and both gradients.
TEST(LinearCrossEntropyTimes, DISABLED_OfThreeModels) {
  SHOAL_SKIP_WITHOUT_GPU();
  for (const Shape& shape : {Shape{32768, 768, 50257}, Shape{8192, 1600, 50257}, Shape{4096, 4096, 128256}}) {
    const Inputs given = make_inputs(shape, at::kBFloat16, at::kCUDA, 1);
    const double flops = 6.0 * static_cast<double>(shape.count * shape.width * shape.vocabulary);
    const auto report = [&](const char* name, auto&& loss_of) {
      const auto once = [&] {
        given.x.mutable_grad().reset();
        given.weight.mutable_grad().reset();
        run(loss_of, given);
      };
      const testing::GpuCost cost = testing::gpu_cost_of(once);
      fmt::print("{} x {} x {} {}: {:.3f} ms, {:.0f} TFLOP/s, {:.2f} GiB more\n", shape.count, shape.width,
                 shape.vocabulary, name, cost.milliseconds, flops / cost.milliseconds / 1e9, cost.peak_gib);
    };
    report("fused", linear_cross_entropy);
    report("reference", reference::linear_cross_entropy);
  }
}

}  // namespace
}  // namespace shoal::fused
