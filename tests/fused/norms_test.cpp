// The norms: on the CPU they are LibTorch's to the bit; the operators have the right graph; on a GPU the kernels agree
// with float64.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "fused/norms_cases.h"
#include "support/gpu.h"

namespace shoal::testing {
namespace {

using at::Tensor;

std::vector<NormCase> both_norms(std::int64_t rows, std::int64_t width, at::ScalarType type, std::uint64_t seed = 1) {
  std::vector<NormCase> cases;
  for (const bool centred : {true, false})
    for (const bool add : {true, false}) cases.push_back({centred, add, rows, width, type, seed});
  return cases;
}

// Which outputs go on into a loss.
enum class Used { both, sum, normed };

// Fixed gradients of the outputs, of their type.
NormOutputs output_gradients(const NormCase& c, at::Device device) {
  at::Generator generator = at::detail::createCPUGenerator(c.seed + 100);
  const auto values = [&] { return at::randn({c.rows, c.width}, generator, at::kFloat).to(device, c.type); };
  return {values(), values()};
}

void backward(const NormCase& c, const NormOutputs& out, Used used = Used::both) {
  const NormOutputs grads = output_gradients(c, out.normed.device());
  const auto like = [](const Tensor& grad, const Tensor& of) { return grad.to(of.scalar_type()); };
  std::vector<Tensor> roots, gradients;
  if (used != Used::normed && c.add) {
    roots.push_back(out.sum);
    gradients.push_back(like(grads.sum, out.sum));
  }
  if (used != Used::sum) {
    roots.push_back(out.normed);
    gradients.push_back(like(grads.normed, out.normed));
  }
  torch::autograd::backward(roots, gradients);
}

std::vector<std::pair<std::string, Tensor>> leaves(const NormInputs& in) {
  return {{"x", in.x}, {"y", in.y}, {"weight", in.weight}, {"bias", in.bias}};
}

// For a message: the first numbers of both.
std::string beginning_of(const Tensor& got, const Tensor& wanted) {
  std::string text = ":";
  for (const Tensor& values : {got, wanted}) {
    const Tensor first = values.detach().to(at::kCPU, at::kDouble).flatten().slice(0, 0, 4).contiguous();
    for (std::int64_t i = 0; i < first.numel(); ++i) text += fmt::format(" {}", first.data_ptr<double>()[i]);
    text += ";";
  }
  return text;
}

// Gradients of the same leaves, of which some may be undefined in both.
void expect_gradients(const NormInputs& got, const NormInputs& expected, double bound) {
  const auto a = leaves(got), b = leaves(expected);
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (!a[i].second.defined()) continue;
    const Tensor grad = a[i].second.grad(), wanted = b[i].second.grad();
    ASSERT_EQ(grad.defined(), wanted.defined()) << a[i].first;
    if (!grad.defined()) continue;
    EXPECT_EQ(grad.scalar_type(), a[i].second.scalar_type());
    const bool vanishes = wanted.numel() > 0 && wanted.abs().max().item<double>() < 1e-9;  // but for roundings
    EXPECT_LE(relative_error(grad, vanishes ? at::zeros_like(wanted) : wanted), bound)
        << "gradient of " << a[i].first << beginning_of(grad, wanted);
  }
}

TEST(Norms, OnTheCpuAreLibTorchsToTheBit) {
  for (const at::ScalarType type : {at::kDouble, at::kFloat, at::kBFloat16})
    for (const NormCase& c : both_norms(6, 33, type)) {
      SCOPED_TRACE(c.name());
      const NormInputs ours = norm_inputs(c, at::kCPU), theirs = norm_inputs(c, at::kCPU);
      const NormOutputs got = fused_norm(c, ours), expected = reference_norm(c, theirs);
      EXPECT_TRUE(got.sum.equal(expected.sum));
      EXPECT_TRUE(got.normed.equal(expected.normed));
      backward(c, got);
      backward(c, expected);
      expect_gradients(ours, theirs, 0);
    }
}

TEST(NormOperators, HaveTheGradientsOfTheReference) {
  for (const NormCase& c : both_norms(5, 12, at::kDouble))
    for (const Used used : {Used::both, Used::sum, Used::normed}) {
      if (used == Used::sum && !c.add) continue;
      SCOPED_TRACE(c.name());
      const NormInputs ours = norm_inputs(c, at::kCPU), theirs = norm_inputs(c, at::kCPU);
      const NormOutputs got = operator_norm(c, ours), expected = reference_norm(c, theirs);
      EXPECT_LE(relative_error(got.normed, expected.normed), 1e-13);
      backward(c, got, used);
      backward(c, expected, used);
      expect_gradients(ours, theirs, 1e-12);
    }
}

TEST(NormOperators, FrozenInputsGetNoGradient) {
  for (const NormCase& c : both_norms(5, 12, at::kDouble)) {
    SCOPED_TRACE(c.name());
    const NormInputs ours = norm_inputs(c, at::kCPU), theirs = norm_inputs(c, at::kCPU);
    for (const NormInputs& in : {ours, theirs}) {
      in.weight.requires_grad_(false);
      if (c.centred) in.bias.requires_grad_(false);
    }
    backward(c, operator_norm(c, ours), Used::normed);
    backward(c, reference_norm(c, theirs), Used::normed);
    expect_gradients(ours, theirs, 1e-12);
  }
}

TEST(NormOperators, KeepNothingWithoutGradMode) {
  for (const NormCase& c : both_norms(3, 8, at::kDouble)) {
    const NormInputs in = norm_inputs(c, at::kCPU);
    const torch::NoGradGuard no_grad;
    const NormOutputs out = operator_norm(c, in);
    EXPECT_FALSE(out.normed.requires_grad()) << c.name();
    EXPECT_EQ(in.weight.use_count(), 1) << c.name();
  }
}

TEST(NormOperators, SecondDerivativesAreRefused) {
  for (const NormCase& c : both_norms(3, 8, at::kDouble)) {
    const NormInputs in = norm_inputs(c, at::kCPU);
    const Tensor loss = operator_norm(c, in).normed.square().sum();
    const Tensor first = torch::autograd::grad({loss}, {in.x}, {}, {}, /*create_graph=*/true)[0];
    EXPECT_ANY_THROW(first.sum().backward()) << c.name();
  }
}

double output_bound(at::ScalarType type) { return type == at::kFloat ? 1e-6 : type == at::kHalf ? 4e-4 : 3e-3; }

// The sum is rounded before it is normed, so what is normed is compared with the norm of the rounded sum.
void expect_close_to_exact(const NormCase& c, const NormInputs& in, double gradient_bound = 5) {
  SCOPED_TRACE(c.name());
  poison_gpu_memory();
  const NormOutputs got = fused_norm(c, in);
  EXPECT_TRUE(got.sum.equal(c.add ? in.x + in.y : in.x));
  NormInputs truth = exact(in);
  const Tensor normed_sum = got.sum.detach().to(at::kCPU, at::kDouble).requires_grad_();
  const NormCase alone{.centred = c.centred, .rows = c.rows, .width = c.width, .seed = c.seed};
  const NormOutputs expected = reference_norm(alone, {normed_sum, {}, truth.weight, truth.bias});
  EXPECT_EQ(got.normed.scalar_type(), c.type);
  EXPECT_LE(relative_error(got.normed, expected.normed), output_bound(c.type));
  backward(c, got);
  const NormOutputs grads = output_gradients(c, at::kCPU);
  expected.normed.backward(grads.normed.to(at::kDouble));
  if (c.add) normed_sum.mutable_grad() += grads.sum.to(at::kDouble);
  truth.x.mutable_grad() = normed_sum.grad();
  if (c.add) truth.y.mutable_grad() = normed_sum.grad();
  expect_gradients(in, truth, gradient_bound * output_bound(c.type));
}

TEST(NormKernels, AgreeWithFloat64) {
  SHOAL_SKIP_WITHOUT_GPU();
  const std::vector<std::pair<std::int64_t, std::int64_t>> shapes{
      {1, 8},    {3, 3},     {7, 33},     {1, 768},    {300, 768}, {2111, 768}, {33, 255},  {40, 256},
      {19, 512}, {61, 776},  {129, 1024}, {517, 1600}, {8, 2048},  {21, 3072},  {65, 4096}, {17, 5000},
      {9, 8192}, {5, 12288}, {3, 16384},  {4, 16383},  {257, 100}, {2, 1000}};
  for (const at::ScalarType type : {at::kFloat, at::kHalf, at::kBFloat16})
    for (const auto& [rows, width] : shapes)
      for (const NormCase& c : both_norms(rows, width, type, static_cast<std::uint64_t>(rows + width)))
        expect_close_to_exact(c, norm_inputs(c, at::kCUDA));
}

TEST(NormKernels, ARowOfOneNumberAndNoRowsAtAll) {
  SHOAL_SKIP_WITHOUT_GPU();
  for (const NormCase& c : both_norms(0, 768, at::kBFloat16)) expect_close_to_exact(c, norm_inputs(c, at::kCUDA));
  const NormCase layer{.centred = true, .add = true, .rows = 5, .width = 1};
  // What is subtracted from a gradient here is all of it, and 1/std is 316: a rounding is left, times that.
  expect_close_to_exact(layer, norm_inputs(layer, at::kCUDA), 30);
}

TEST(NormKernels, WorkWhereRowsAndWeightsBeginAnywhere) {
  SHOAL_SKIP_WITHOUT_GPU();
  const auto moved = [](const Tensor& values, std::int64_t by) {
    const Tensor memory = at::empty({values.numel() + by}, values.options());
    const Tensor view = memory.slice(0, by).view(values.sizes());
    view.copy_(values.detach());
    return view.detach().requires_grad_();
  };
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16})
    for (const NormCase& c : both_norms(70, 768, type)) {
      NormInputs in = norm_inputs(c, at::kCUDA);
      in.weight = moved(in.weight, 1);
      if (c.centred) in.bias = moved(in.bias, 3);
      expect_close_to_exact(c, in);
      in = norm_inputs(c, at::kCUDA);
      in.x = moved(in.x, 1);
      expect_close_to_exact(c, in);
    }
}

TEST(NormKernels, TakeOtherLayoutsAndMoreDimensions) {
  SHOAL_SKIP_WITHOUT_GPU();
  const NormCase c{.centred = true, .add = true, .rows = 6 * 7, .width = 64};
  const NormInputs in = norm_inputs(c, at::kCUDA);
  NormInputs folded = in;
  folded.x = in.x.view({6, 7, 64});
  folded.y = in.y.view({6, 7, 64}).transpose(0, 1).contiguous().transpose(0, 1);
  const NormOutputs flat = fused_norm(c, in), deep = fused_norm(c, folded);
  EXPECT_EQ(deep.normed.sizes(), folded.x.sizes());
  EXPECT_TRUE(deep.normed.view({42, 64}).equal(flat.normed));
}

// E[x^2] - E[x]^2 in fp32 would be wrong by a few percent here.
TEST(NormKernels, FarFromZeroTheVarianceIsStillRight) {
  SHOAL_SKIP_WITHOUT_GPU();
  const NormCase c{.centred = true, .rows = 64, .width = 768};
  NormInputs in = norm_inputs(c, at::kCUDA);
  in.x = (in.x.detach() + 1000).requires_grad_();
  EXPECT_LE(relative_error(fused_norm(c, in).normed, reference_norm(c, exact(in)).normed), 2e-4);
}

TEST(NormKernels, TheSameBitsEachTime) {
  SHOAL_SKIP_WITHOUT_GPU();
  for (const NormCase& c : both_norms(5000, 768, at::kBFloat16)) {
    const NormInputs a = norm_inputs(c, at::kCUDA), b = norm_inputs(c, at::kCUDA);
    backward(c, fused_norm(c, a));
    poison_gpu_memory();
    backward(c, fused_norm(c, b));
    SCOPED_TRACE(c.name());
    expect_gradients(a, b, 0);
  }
}

TEST(NormKernels, AGradientOfOneOutputAlone) {
  SHOAL_SKIP_WITHOUT_GPU();
  for (const bool centred : {true, false})
    for (const Used used : {Used::sum, Used::normed}) {
      const NormCase c{.centred = centred, .add = true, .rows = 50, .width = 256};
      SCOPED_TRACE(c.name());
      const NormInputs ours = norm_inputs(c, at::kCUDA), truth = exact(ours);
      backward(c, fused_norm(c, ours), used);
      backward(c, reference_norm(c, truth), used);
      expect_gradients(ours, truth, 1e-5);
    }
}

TEST(NormKernels, InDoubleTheReferenceIsTaken) {
  SHOAL_SKIP_WITHOUT_GPU();
  for (const NormCase& c : both_norms(5, 64, at::kDouble)) {
    const NormInputs ours = norm_inputs(c, at::kCUDA), truth = exact(ours);
    EXPECT_LE(relative_error(fused_norm(c, ours).normed, reference_norm(c, truth).normed), 1e-13) << c.name();
  }
}

}  // namespace
}  // namespace shoal::testing
