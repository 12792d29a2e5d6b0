#include "models/init.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cmath>

namespace shoal::models {
namespace {

namespace nn = torch::nn;

struct TwoLayersImpl : nn::Module {
  nn::Linear first, second;
  TwoLayersImpl() : first(8, 300), second(300, 4) {
    register_module("first", first);
    register_module("second", second);
  }
};

struct WithOthersImpl : nn::Module {
  nn::Conv2d before;
  nn::Linear first;
  nn::BatchNorm1d norm;
  nn::Embedding embedding;
  WithOthersImpl()
      : before(nn::Conv2dOptions(3, 16, 5)),
        first(8, 300),
        norm(300),
        embedding(nn::EmbeddingOptions(500, 20).padding_idx(3)) {
    register_module("before", before);
    register_module("first", first);
    register_module("norm", norm);
    register_module("embedding", embedding);
  }
};

TEST(InitializeParameters, DependsOnSeedAndNameAlone) {
  torch::manual_seed(1);
  TwoLayersImpl a;
  initialize_parameters(a, 17);
  torch::manual_seed(2);
  torch::randn({1000});
  WithOthersImpl b;
  initialize_parameters(b, 17);
  EXPECT_TRUE(at::equal(a.first->weight, b.first->weight));
  EXPECT_TRUE(at::equal(a.first->bias, b.first->bias));
  TwoLayersImpl other_seed;
  initialize_parameters(other_seed, 18);
  EXPECT_FALSE(at::equal(a.first->weight, other_seed.first->weight));
  EXPECT_FALSE(at::equal(a.first->bias, a.first->weight.flatten().slice(0, 0, 300)));
}

TEST(InitializeParameters, LeavesTheGlobalGeneratorAlone) {
  TwoLayersImpl model;
  torch::manual_seed(5);
  const at::Tensor expected = torch::randn({4});
  torch::manual_seed(5);
  initialize_parameters(model, 17);
  EXPECT_TRUE(at::equal(torch::randn({4}), expected));
}

void expect_uniform(const at::Tensor& values, double bound) {
  EXPECT_LE(values.abs().max().item<double>(), bound);
  EXPECT_NEAR(values.std().item<double>() / (bound / std::sqrt(3.0)), 1.0, 0.05);
}

TEST(InitializeParameters, TakesTorchsDistributions) {
  WithOthersImpl model;
  initialize_parameters(model, 3);
  const at::NoGradGuard no_grad;
  expect_uniform(model.first->weight, 1 / std::sqrt(8.0));
  expect_uniform(model.before->weight, 1 / std::sqrt(75.0));
  EXPECT_NEAR(model.embedding->weight.std().item<double>(), 1.0, 0.05);
  EXPECT_EQ(model.embedding->weight[3].abs().sum().item<double>(), 0.0) << "the padding row";
  EXPECT_TRUE(at::equal(model.norm->weight, torch::ones({300})));
  EXPECT_TRUE(model.first->weight.requires_grad());
}

TEST(InitializeParameters, DrawsTiedParametersOnce) {
  TwoLayersImpl tied, plain;
  tied.second->weight = tied.first->weight;
  tied.second->register_parameter("tied", tied.first->weight);
  initialize_parameters(tied, 4);
  initialize_parameters(plain, 4);
  EXPECT_TRUE(at::equal(tied.first->weight, plain.first->weight));
}

TEST(InitializeParameters, NamesARootThatIsALayerWithoutADot) {
  nn::Linear alone(8, 300);
  initialize_parameters(*alone, 4);
  nn::Linear again(8, 300);
  initialize_parameters(*again, 4);
  EXPECT_TRUE(at::equal(alone->weight, again->weight));
}

// N(0, std) for matrices, whatever else the module has and however many threads draw; zeros and ones for vectors.
TEST(InitializeNormal, DependsOnSeedAndNameAlone) {
  const auto std_of = [](const std::string& fqn) { return fqn.starts_with("first") ? 0.5 : 0.02; };
  const int threads = at::get_num_threads();
  const auto make = [&](int on_threads, std::uint64_t seed, auto& model) {
    at::set_num_threads(on_threads);
    model.second = nn::Linear(600, 400);
    model.register_module("large", model.second);
    initialize_normal(model, seed, std_of);
    at::set_num_threads(threads);
  };
  TwoLayersImpl a, b, other;
  make(1, 17, a);
  torch::manual_seed(2);
  make(3, 17, b);
  make(1, 18, other);
  EXPECT_TRUE(at::equal(a.first->weight, b.first->weight));
  EXPECT_TRUE(at::equal(a.second->weight, b.second->weight));
  EXPECT_FALSE(at::equal(a.second->weight, other.second->weight));
  EXPECT_NEAR(a.first->weight.std().item<double>(), 0.5, 0.02);
  EXPECT_NEAR(a.second->weight.std().item<double>(), 0.02, 0.0002);
  EXPECT_EQ(a.second->bias.abs().sum().item<double>(), 0);
  EXPECT_TRUE(a.second->weight.requires_grad());
  TwoLayersImpl doubles;
  doubles.to(at::kDouble);
  initialize_normal(doubles, 17, std_of);
  EXPECT_TRUE(at::equal(doubles.first->weight, a.first->weight.to(at::kDouble)));
}

}  // namespace
}  // namespace shoal::models
