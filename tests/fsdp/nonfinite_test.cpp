// The first operator that makes a value that is not finite is named with its unit; masks are not blamed.
#include <gtest/gtest.h>

#include <limits>

#include "fsdp/recompute_models.h"
#include "support/on_ranks.h"

namespace shoal::testing {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity(), kNan = std::numeric_limits<double>::quiet_NaN();

at::Tensor input() { return samples({.make = make_mlp}, 0, 0, 4).first; }

std::string found_by(comm::ProcessGroup& world,
                     const std::function<at::Tensor(at::Tensor normed, at::Tensor x)>& body) {
  Sharded s = shard(
      world, [&] { return make_with(body); }, "class:With");
  return s.fsdp->find_nonfinite([&] { (void)s.model.forward(input()); });
}

// Causal attention over the rows with a mask as `mask_scores` makes it.
std::string found_in_attention(comm::ProcessGroup& world, const std::function<at::Tensor(at::Tensor)>& mask_scores) {
  return found_by(world, [&](const at::Tensor& q, const at::Tensor& x) {
    return at::softmax(mask_scores(q.matmul(q.t())), -1).matmul(x);
  });
}

TEST(Nonfinite, AFinitePassFindsNothing) {
  on_ranks([](comm::ProcessGroup& world) {
    for (TestModel (*const make)() : {make_mlp, make_twice, make_conv, make_attention, make_batch_norm}) {
      Sharded s = shard(world, make, "size:30");
      EXPECT_EQ(s.fsdp->find_nonfinite([&] { (void)s.model.forward(input()).sum(); }), "");
    }
  });
}

TEST(Nonfinite, MasksAreNotBlamed) {
  on_ranks([](comm::ProcessGroup& world) {
    const auto causal = [](const at::Tensor& like) { return at::ones_like(like, at::kBool).triu(1); };
    EXPECT_EQ(found_in_attention(world, [&](at::Tensor s) { return s.masked_fill(causal(s), -kInf); }), "");
    EXPECT_EQ(found_in_attention(world, [&](at::Tensor s) { return s.masked_fill_(causal(s), -kInf); }), "");
    EXPECT_EQ(found_in_attention(world, [&](at::Tensor s) { return s + at::full_like(s, -kInf).triu(1); }), "");
    EXPECT_EQ(found_in_attention(world, [&](at::Tensor s) { return at::where(causal(s), -kInf, s); }), "");
    EXPECT_EQ(found_in_attention(world,
                                 [&](at::Tensor s) {
                                   const at::Tensor mask = at::zeros_like(s);
                                   return s + mask.masked_fill(causal(s), at::scalar_tensor(-kInf, at::kDouble));
                                 }),
              "");
    EXPECT_EQ(found_in_attention(world, [&](at::Tensor s) { return at::empty_like(s).fill_(-kInf).tril(-1) + s; }), "");
    EXPECT_EQ(found_by(world,
                       [&](at::Tensor q, at::Tensor) {
                         q = q.view({1, 1, 4, 8});
                         const at::Tensor mask = at::full({4, 4}, -kInf, at::kDouble).triu(1);
                         return at::scaled_dot_product_attention(q, q, q, mask).view({4, 8});
                       }),
              "");
  });
}

TEST(Nonfinite, TheFirstOperatorIsNamedWithItsUnit) {
  on_ranks([](comm::ProcessGroup& world) {
    EXPECT_EQ(found_by(world, [](at::Tensor n, at::Tensor x) { return (x / (n - n)).mul(1e200).square(); }),
              "unit 'blocks.0', operator aten::div");
    EXPECT_EQ(found_by(world, [](at::Tensor n, at::Tensor) { return (n * 1e200).square_().log(); }),
              "unit 'blocks.0', operator aten::square_");
    EXPECT_EQ(found_by(world, [](at::Tensor n, at::Tensor) { return n.abs().neg().log(); }),
              "unit 'blocks.0', operator aten::log");
    EXPECT_EQ(found_by(world, [](at::Tensor n, at::Tensor) { return (n * 1e6).to(at::kHalf).to(at::kDouble); }),
              "unit 'blocks.0', operator aten::to");
    // A row without anything to attend to.
    EXPECT_EQ(found_in_attention(world, [](at::Tensor s) { return s.masked_fill(at::ones_like(s, at::kBool), -kInf); }),
              "unit 'blocks.0', operator aten::softmax");
  });
}

TEST(Nonfinite, TheRootsOperators) {
  on_ranks([](comm::ProcessGroup& world) {
    Sharded s = shard(world, make_mlp);
    EXPECT_EQ(s.fsdp->find_nonfinite([&] { (void)s.model.forward(input()).div(0); }),
              "unit '(root)', operator aten::div");
    EXPECT_EQ(s.fsdp->find_nonfinite([&] { (void)s.model.forward(input() * kNan); }),
              "unit '(root)', operator aten::mul, which was given a value that is not a number");
  });
}

TEST(Nonfinite, ANanInAParameterIsFoundWhereItIsUsed) {
  on_ranks([](comm::ProcessGroup& world) {
    Sharded s = shard(world, make_mlp);
    s.fsdp->summon_full_params(
        [&] {
          const torch::NoGradGuard no_grad;
          s.model.module->named_parameters()["blocks.1.up.weight"].view(-1)[3] = kNan;
        },
        true);
    EXPECT_EQ(s.fsdp->find_nonfinite([&] { (void)s.model.forward(input()); }),
              "unit 'blocks.1', operator aten::addmm, which was given a value that is not a number");
    // Nothing of the search is left behind.
    s.fsdp->run([&] { s.model.forward(input()).sum().backward(); });
  });
}

TEST(Nonfinite, MemoryWithoutValuesIsNotBlamed) {
  on_ranks(1, [](comm::ProcessGroup& world) {
    EXPECT_EQ(found_by(world,
                       [](at::Tensor n, at::Tensor x) {
                         at::Tensor out = at::empty_like(n);
                         std::fill_n(out.data_ptr<double>(), out.numel(), kNan);
                         out.narrow(0, 0, 2).copy_(n.narrow(0, 0, 2));
                         out.slice(0, 2).copy_(x.slice(0, 2));
                         return at::add_out(out, out, n);
                       }),
              "");
  });
}

}  // namespace
}  // namespace shoal::testing
