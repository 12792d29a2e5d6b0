// What recomputation knows of the fused operators.
#include "fsdp/recompute_rules.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <string>

#include "fused/gelu_mlp.h"
#include "fused/layer_norm.h"
#include "fused/linear_cross_entropy.h"
#include "fused/rms_norm.h"
#include "fused/rope.h"
#include "fused/swiglu.h"

namespace shoal::fsdp {
namespace {

// A library's objects are linked, and register their operators, where something of them is used.
void use_all() {
  const at::Tensor x = at::ones({2, 4}), weight = at::ones({4, 4}), bias = at::ones({4});
  const at::Tensor normed = fused::rms_norm(fused::layer_norm(x, bias, bias, 1e-5), bias, 1e-5);
  const at::Tensor y = fused::gelu_mlp(fused::swiglu(normed, x), {weight, bias, weight, bias}, {});
  fused::rotate(y.view({1, 2, 1, 4}), x, x);
  fused::linear_cross_entropy(y, weight, at::zeros({2}, at::kLong), -1);
}

const OperatorTraits& traits_named(const std::string& name) {
  return traits_of(c10::Dispatcher::singleton().findSchemaOrThrow(name.c_str(), ""));
}

TEST(RecomputeRules, ProductsAmongTheFusedOperatorsAreKept) {
  use_all();
  for (const char* const name :
       {"shoal::linear", "shoal::gelu_mlp", "shoal::linear_cross_entropy", "aten::scaled_dot_product_attention"})
    EXPECT_TRUE(traits_named(name).expensive) << name;
  for (const char* const name :
       {"shoal::layer_norm", "shoal::add_layer_norm", "shoal::rms_norm", "shoal::swiglu", "shoal::rotate"})
    EXPECT_FALSE(traits_named(name).expensive) << name;
}

TEST(RecomputeRules, FusedOperatorsAreReplayedOnlyForTheirResults) {
  use_all();
  for (const char* const name : {"shoal::linear", "shoal::gelu_mlp", "shoal::linear_cross_entropy", "shoal::layer_norm",
                                 "shoal::add_layer_norm", "shoal::rms_norm", "shoal::swiglu", "shoal::rotate"}) {
    EXPECT_FALSE(traits_named(name).has_effects) << name;
    EXPECT_TRUE(traits_named(name).makes_tensors) << name;
  }
}

}  // namespace
}  // namespace shoal::fsdp
