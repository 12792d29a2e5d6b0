// Operators that read a parameter have it among their arguments, in forward and in backward: whoever owns its memory,
// as the sharding engine does, is asked for it each time.
#include "fsdp/torch_internals.h"
#include "fused/compare.h"
#include "fused/gelu_mlp.h"
#include "fused/linear.h"

namespace shoal::testing {
namespace {

namespace internals = fsdp::torch_internals;
using fused::WeightLayout;

class Lender : public internals::StorageOwner {
 public:
  void before_operator(std::span<internals::StorageUser* const> users) override { asked += users.size(); }
  std::size_t asked = 0;
};

// A leaf of `sizes` whose memory is lent by the test.
class Parameter {
 public:
  Parameter(Lender& lender, std::vector<std::int64_t> sizes)
      : memory_(at::randn(sizes, at::TensorOptions(at::kCUDA).dtype(at::kBFloat16))),
        user_(lender, memory_.numel(), at::kBFloat16, memory_.device(), "its memory is not lent"),
        leaf_(user_.flat().view(sizes).detach().requires_grad_()) {
    user_.lend_memory(memory_.mutable_data_ptr());
  }
  const at::Tensor& leaf() const { return leaf_; }
  at::Tensor copy() const { return memory_.clone(); }

 private:
  at::Tensor memory_;
  internals::StorageUser user_;
  at::Tensor leaf_;
};

at::Tensor input() { return at::randn({6, 16}, at::TensorOptions(at::kCUDA).dtype(at::kBFloat16)).requires_grad_(); }

TEST(Interception, SeesTheWeightOfALinearLayer) {
  SHOAL_NEEDS_GPU();
  Lender lender;
  const Parameter weight(lender, {8, 16});
  const at::Tensor x = input();
  const internals::InterceptScope intercept;
  const at::Tensor y = fused::linear(x, weight.leaf(), {}, {}, WeightLayout::out_in);
  EXPECT_EQ(lender.asked, 1);
  y.backward(at::ones_like(y));
  EXPECT_EQ(lender.asked, 2);
  expect_close(x.grad(), at::ones_like(y).mm(weight.copy()), rounding_of(at::kBFloat16), "gradient of x");
}

TEST(Interception, DoesNotAskForAWeightWhoseInputWantsNoGradient) {
  SHOAL_NEEDS_GPU();
  Lender lender;
  const Parameter weight(lender, {8, 16});
  const internals::InterceptScope intercept;
  const at::Tensor y = fused::linear(input().detach(), weight.leaf(), {}, {}, WeightLayout::out_in);
  y.backward(at::ones_like(y));
  EXPECT_EQ(lender.asked, 1);
}

TEST(Interception, SeesTheParametersOfAnMlp) {
  SHOAL_NEEDS_GPU();
  Lender lender;
  const Parameter weight_in(lender, {16, 64}), bias_in(lender, {64}), weight_out(lender, {64, 16}),
      bias_out(lender, {16});
  const at::Tensor x = input();
  const internals::InterceptScope intercept;
  const at::Tensor y = fused::gelu_mlp(
      x, {weight_in.leaf(), bias_in.leaf(), weight_out.leaf(), bias_out.leaf(), WeightLayout::in_out}, x);
  EXPECT_EQ(lender.asked, 4);
  y.backward(at::ones_like(y));
  EXPECT_EQ(lender.asked, 6);  // the weights again
}

}  // namespace
}  // namespace shoal::testing
