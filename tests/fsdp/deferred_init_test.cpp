// Values of a recorded construction are, to the bit, those of the same construction without recording.
#include "fsdp/deferred_init.h"

#include <ATen/CPUGeneratorImpl.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "core/error.h"
#include "fsdp/deferred_models.h"
#include "models/registry.h"

namespace shoal::testing {
namespace {

using fsdp::DeferredInit;
using torch::nn::Module;

using Tensors = std::map<std::string, at::Tensor>;

Tensors tensors_of(const Module& module) {
  Tensors tensors;
  for (const auto& item : module.named_parameters()) tensors.emplace(item.key(), item.value());
  for (const auto& item : module.named_buffers()) tensors.emplace(item.key(), item.value());
  return tensors;
}

at::Tensor values_of(const DeferredInit& deferred, const at::Tensor& tensor) {
  return deferred.is_deferred(tensor) ? deferred.values(tensor) : tensor;
}

void expect_equal(const std::string& name, const at::Tensor& is, const at::Tensor& should) {
  EXPECT_EQ(is.scalar_type(), should.scalar_type()) << name;
  EXPECT_EQ(is.sizes(), should.sizes()) << name;
  EXPECT_TRUE(at::equal(is, should)) << name;
}

void expect_same_as_eager(const Construction& construction, bool backwards) {
  SCOPED_TRACE(construction.name);
  torch::manual_seed(5);
  const Tensors eager = tensors_of(*construction.build());
  DeferredInit deferred;
  std::shared_ptr<Module> module;
  deferred.record([&] {
    torch::manual_seed(5);
    module = construction.build();
  });
  const Tensors recorded = tensors_of(*module);
  std::vector<std::string> names;
  for (const auto& [name, tensor] : recorded) names.push_back(name);
  if (backwards) std::reverse(names.begin(), names.end());
  ASSERT_EQ(recorded.size(), eager.size());
  for (const std::string& name : names) {
    const at::Tensor& tensor = recorded.at(name);
    EXPECT_EQ(tensor.requires_grad(), eager.at(name).requires_grad()) << name;
    EXPECT_EQ(tensor.strides(), eager.at(name).strides()) << name;
    expect_equal(name, values_of(deferred, tensor), eager.at(name));
  }
  deferred.fill_rest();
  for (const auto& [name, tensor] : recorded) expect_equal(name, tensor, eager.at(name));
}

Construction builtin_model(const std::string& name) {
  return {name, [name] {
            const models::ModelEntry& entry = models::find_model(name);
            return entry.make(models::complete(entry, {.seed = 13}))->module();
          }};
}

class DeferredInitTest : public ::testing::TestWithParam<Construction> {};

TEST_P(DeferredInitTest, GivesTheValuesOfEagerConstruction) { expect_same_as_eager(GetParam(), /*backwards=*/false); }
TEST_P(DeferredInitTest, GivesThemInAnyOrder) { expect_same_as_eager(GetParam(), /*backwards=*/true); }

std::string name_of_case(const ::testing::TestParamInfo<Construction>& info) {
  std::string name = info.param.name;
  std::erase_if(name, [](char c) { return std::isalnum(static_cast<unsigned char>(c)) == 0; });
  return name;
}
INSTANTIATE_TEST_SUITE_P(Library, DeferredInitTest, ::testing::ValuesIn(library_modules()), name_of_case);
INSTANTIATE_TEST_SUITE_P(Initialisers, DeferredInitTest, ::testing::ValuesIn(initialisers()), name_of_case);
INSTANTIATE_TEST_SUITE_P(Passes, DeferredInitTest, ::testing::ValuesIn(passes()), name_of_case);
INSTANTIATE_TEST_SUITE_P(Unusual, DeferredInitTest, ::testing::ValuesIn(unusual_constructors()), name_of_case);

INSTANTIATE_TEST_SUITE_P(Builtin, DeferredInitTest,
                         ::testing::Values(builtin_model("mnist-net"), builtin_model("two-stack-cnn"),
                                           builtin_model("gpt2-tiny"), builtin_model("llama-tiny"),
                                           builtin_model("bert-tiny")),
                         name_of_case);

// 32 GB of weights; each is drawn by a generator of its own, so that one can be made without the others.
TEST(DeferredInit, RecordsAModelThatDoesNotFitHere) {
  DeferredInit deferred;
  std::shared_ptr<Module> llama;
  deferred.record([&] { llama = builtin_model("llama-8b").build(); });
  std::int64_t deferred_elements = 0, made_elements = 0;
  for (const at::Tensor& p : llama->parameters())
    (deferred.is_deferred(p) ? deferred_elements : made_elements) += p.numel();
  EXPECT_GT(deferred_elements, 8'000'000'000);
  EXPECT_LT(made_elements, 1'000'000);  // of the norms
  at::Tensor last;
  for (const at::Tensor& p : llama->parameters())
    if (deferred.is_deferred(p) && p.numel() < 10'000'000) last = p;
  ASSERT_TRUE(last.defined());
  EXPECT_GT(deferred.values(last).std().item<float>(), 0.001F);
}

// 102 GB that nobody could draw here, though they come first.
TEST(DeferredInit, MakesNothingThatDoesNotCount) {
  DeferredInit deferred;
  at::Tensor huge, small;
  deferred.record([&] {
    huge = torch::nn::Linear(160000, 160000)->weight;
    small = torch::nn::Linear(8, 4)->weight;
    const torch::NoGradGuard no_grad;
    for (at::Tensor& weight : std::vector{huge, small})
      weight.normal_(0, 1, at::detail::createCPUGenerator(static_cast<std::uint64_t>(weight.size(0))));
  });
  EXPECT_TRUE(deferred.is_deferred(huge));
  EXPECT_EQ(huge.sizes(), (std::vector<std::int64_t>{160000, 160000}));
  expect_equal("small", deferred.values(small), torch::empty({4, 8}).normal_(0, 1, at::detail::createCPUGenerator(4)));
}

TEST(DeferredInit, LeavesTheTensorAsItIsAndGivesItsValuesAnyNumberOfTimes) {
  DeferredInit deferred;
  at::Tensor weight;
  deferred.record([&] {
    torch::manual_seed(1);
    weight = torch::randn({50});
  });
  at::Tensor first = deferred.values(weight);
  torch::manual_seed(1);
  const at::Tensor eager = torch::randn({50});
  EXPECT_TRUE(at::equal(first, eager));
  first.zero_();
  EXPECT_TRUE(at::equal(deferred.values(weight), eager));
  EXPECT_TRUE(deferred.is_deferred(weight));
}

TEST(DeferredInit, GoesOnInASecondRecording) {
  torch::manual_seed(4);
  const at::Tensor eager = torch::randn({20}), eager_next = torch::randn({30}) * eager.sum();
  DeferredInit deferred;
  at::Tensor weight, next;
  torch::manual_seed(4);
  deferred.record([&] { weight = torch::randn({20}); });
  deferred.record([&] { next = torch::randn({30}) * weight.sum(); });
  expect_equal("the second", deferred.values(next), eager_next);
  expect_equal("the first", deferred.values(weight), eager);
}

TEST(DeferredInit, LeavesAGeneratorWhereItsSeedAndDrawsTell) {
  const auto after = [](std::uint64_t seed, int draws) {
    torch::manual_seed(seed);
    DeferredInit().record([&] {
      for (int i = 0; i < draws; ++i) torch::randn({3});
    });
    return torch::rand({4});
  };
  EXPECT_TRUE(at::equal(after(1, 2), after(1, 2)));
  EXPECT_FALSE(at::equal(after(1, 2), after(2, 2)));
  EXPECT_FALSE(at::equal(after(1, 2), after(1, 3)));
}

TEST(DeferredInit, FingerprintsTellWhatWasRecorded) {
  const auto of = [](const std::function<at::Tensor()>& build) {
    DeferredInit deferred;
    at::Tensor kept;
    deferred.record([&] {
      torch::manual_seed(9);
      kept = build();
    });
    return deferred.fingerprint();
  };
  const auto base = of([] { return torch::randn({4}) * 0.5; });
  EXPECT_EQ(base, of([] { return torch::randn({4}) * 0.5; }));
  EXPECT_NE(base, of([] { return torch::randn({4}) * 0.25; }));
  EXPECT_NE(base, of([] { return torch::randn({5}) * 0.5; }));
  EXPECT_NE(base, of([] { return torch::randn({4}) + 0.5; }));
  EXPECT_NE(base, of([] {
              torch::manual_seed(8);
              return torch::randn({4}) * 0.5;
            }));
  EXPECT_NE(of([] {
              return torch::randn({2}) * torch::tensor({1., 2.});
            }),
            of([] {
              return torch::randn({2}) * torch::tensor({1., 3.});
            }));
}

std::string message_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const c10::Error& error) {
    return error.what_without_backtrace();
  } catch (const std::exception& error) {
    return error.what();
  }
  return "";
}

TEST(DeferredInit, SaysWhyATensorCannotBeRead) {
  DeferredInit deferred;
  at::Tensor weight, large;
  deferred.record([&] {
    weight = torch::randn({50});
    large = torch::zeros({1000, 1000});
    EXPECT_NE(message_of([&] { large.data_ptr<float>(); }).find("DeferredInit recorded"), std::string::npos);
  });
  EXPECT_NE(message_of([&] { weight.add_(1); }).find("DeferredInit recorded"), std::string::npos);
  EXPECT_NE(message_of([&] { (void)weight.sum(); }).find("fully_shard()"), std::string::npos);
  EXPECT_THROW(deferred.values(torch::ones({2})), InternalError);
}

TEST(DeferredInit, ErrorsOfTheConstructorAreItsOwn) {
  DeferredInit deferred;
  at::Tensor weight;
  const std::string message = message_of([&] {
    deferred.record([&] {
      weight = torch::randn({50});
      weight = torch::mm(torch::randn({3, 4}), torch::randn({3, 4}));
    });
  });
  EXPECT_NE(message.find("mat1 and mat2 shapes cannot be multiplied"), std::string::npos) << message;
  EXPECT_TRUE(deferred.is_deferred(weight));
  EXPECT_EQ(torch::ones({3}).sum().item<float>(), 3);  // nothing is recorded any more
}

}  // namespace
}  // namespace shoal::testing
