#include "fused/linear_cross_entropy.h"

#include <torch/torch.h>

#include <tuple>

#include "fused/chunked_cross_entropy.h"
#include "fused/operators.h"
#include "kernels/cross_entropy.h"

namespace shoal::fused {

at::Tensor reference::linear_cross_entropy(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& targets,
                                           std::int64_t ignored) {
  const at::Tensor logits = at::linear(x, weight);
  const at::Tensor log_p = at::log_softmax(logits, -1, c10::promoteTypes(logits.scalar_type(), at::kFloat));
  return at::nll_loss(log_p, targets, /*weight=*/{}, at::Reduction::Sum, ignored);
}

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

using Loss = at::Tensor(const at::Tensor&, const at::Tensor&, const at::Tensor&, std::int64_t);
using LossAndGradients = std::tuple<at::Tensor, at::Tensor, at::Tensor>(const at::Tensor&, const at::Tensor&,
                                                                        const at::Tensor&, std::int64_t, bool, bool);

at::Tensor loss_alone(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& targets, std::int64_t ignored) {
  return chunked_cross_entropy({.x = x, .weight = weight, .targets = targets, .ignored = ignored}).loss;
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> loss_and_gradients(const at::Tensor& x, const at::Tensor& weight,
                                                                  const at::Tensor& targets, std::int64_t ignored,
                                                                  bool x_wanted, bool weight_wanted) {
  CrossEntropyResult result = chunked_cross_entropy({x, weight, targets, ignored, x_wanted, weight_wanted});
  return {result.loss, result.x, result.weight};
}

// In fp32, without waiting for the GPU; a product of LibTorch's would first round the factor to the gradient's type.
at::Tensor scaled(const at::Tensor& gradient, const at::Tensor& factor, at::Tensor result) {
  const DeviceScope device(gradient);
  if (!device.has_memory()) return result;
  kernels::scale(gradient.const_data_ptr(), dtype_of(gradient), factor.const_data_ptr<float>(),
                 result.mutable_data_ptr(), dtype_of(result), gradient.numel(), device.stream());
  return result;
}

using Scaled = at::Tensor(const at::Tensor&, const at::Tensor&, const at::Tensor&);

at::Tensor scaled_for(const at::Tensor& gradient, const at::Tensor& factor, const at::Tensor& parameter) {
  return scaled(gradient, factor, empty_gradient(parameter));
}

class LinearCrossEntropy : public torch::autograd::Function<LinearCrossEntropy> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& weight,
                            const at::Tensor& targets, std::int64_t ignored) {
    const at::AutoDispatchBelowADInplaceOrView below;
    static const auto op = operator_named<LossAndGradients>("shoal::linear_cross_entropy_with_gradients");
    const auto [loss, x_gradient, weight_gradient] =
        op.call(x, weight, targets, ignored, x.requires_grad(), weight.requires_grad());
    context->save_for_backward({x_gradient, weight_gradient, weight});
    return loss;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const variable_list saved = context->get_saved_variables();
    const at::AutoDispatchBelowADInplaceOrView below;
    static const auto op = operator_named<Scaled>("shoal::linear_cross_entropy_weight_gradient");
    return {saved[0].defined() ? scaled(saved[0], gradients[0], at::empty_like(saved[0])) : at::Tensor(),
            saved[1].defined() ? op.call(saved[1], gradients[0], saved[2]) : at::Tensor(),
            {},
            {}};
  }
};

at::Tensor with_autograd(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& targets,
                         std::int64_t ignored) {
  if (records_gradient({x, weight})) return LinearCrossEntropy::apply(x, weight, targets, ignored);
  const at::AutoDispatchBelowADInplaceOrView below;
  return loss_alone(x, weight, targets, ignored);
}

TORCH_LIBRARY_FRAGMENT(shoal, library) {
  library.def("linear_cross_entropy(Tensor x, Tensor weight, Tensor targets, int ignored) -> Tensor");
  library.def(
      "linear_cross_entropy_with_gradients(Tensor x, Tensor weight, Tensor targets, int ignored, bool x_wanted, "
      "bool weight_wanted) -> (Tensor, Tensor, Tensor)");
  library.def("linear_cross_entropy_weight_gradient(Tensor gradient, Tensor factor, Tensor weight) -> Tensor");
}

TORCH_LIBRARY_IMPL(shoal, CUDA, library) {
  library.impl("linear_cross_entropy", loss_alone);
  library.impl("linear_cross_entropy_with_gradients", loss_and_gradients);
  library.impl("linear_cross_entropy_weight_gradient", scaled_for);
}
TORCH_LIBRARY_IMPL(shoal, Meta, library) {
  library.impl("linear_cross_entropy", loss_alone);
  library.impl("linear_cross_entropy_with_gradients", loss_and_gradients);
  library.impl("linear_cross_entropy_weight_gradient", scaled_for);
}

TORCH_LIBRARY_IMPL(shoal, Autograd, library) { library.impl("linear_cross_entropy", with_autograd); }

}  // namespace

at::Tensor linear_cross_entropy(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& targets,
                                std::int64_t ignored) {
  if (!is_for_kernels(x) || !are_like(x, {weight})) return reference::linear_cross_entropy(x, weight, targets, ignored);
  static const auto op = operator_named<Loss>("shoal::linear_cross_entropy");
  return op.call(x, weight, targets, ignored);
}

}  // namespace shoal::fused
