#include "fused/swiglu.h"

#include <torch/csrc/autograd/autograd_not_implemented_fallback.h>
#include <torch/torch.h>

#include <tuple>

#include "core/check.h"
#include "fused/operators.h"
#include "kernels/activation.h"

namespace shoal::fused {
namespace {

using at::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

using Gradients = std::tuple<Tensor, Tensor>;  // of gate, of up

TORCH_LIBRARY_FRAGMENT(shoal, library) {
  library.def("swiglu(Tensor gate, Tensor up) -> Tensor");
  library.def("swiglu_backward(Tensor grad, Tensor gate, Tensor up) -> (Tensor, Tensor)");
}

Tensor call(const Tensor& gate, const Tensor& up) {
  static const auto op = operator_named<Tensor(const Tensor&, const Tensor&)>("shoal::swiglu");
  return op.call(gate, up);
}

Gradients call_backward(const Tensor& grad, const Tensor& gate, const Tensor& up) {
  static const auto op =
      operator_named<Gradients(const Tensor&, const Tensor&, const Tensor&)>("shoal::swiglu_backward");
  return op.call(grad, gate, up);
}

struct SwiGlu : torch::autograd::Function<SwiGlu> {
  static Tensor forward(AutogradContext* ctx, const Tensor& gate, const Tensor& up) {
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    ctx->save_for_backward({gate, up});
    return call(gate, up);
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    const variable_list saved = ctx->get_saved_variables();
    const auto [dgate, dup] = call_backward(grads[0], saved[0], saved[1]);
    return {dgate, dup};
  }
};

Tensor swiglu_autograd(const Tensor& gate, const Tensor& up) { return SwiGlu::apply(gate, up); }

TORCH_LIBRARY_IMPL(shoal, Autograd, library) {
  library.impl("swiglu", &swiglu_autograd);
  library.impl("swiglu_backward", torch::autograd::autogradNotImplementedFallback());
}

bool takes(const Tensor& gate, const Tensor& up) {
  return is_for_kernels(gate) && are_like(gate, {up}) && gate.sizes() == up.sizes();
}

kernels::GateShape shape_of(const Tensor& gate) { return {.count = gate.numel(), .dtype = dtype_of(gate)}; }

Tensor swiglu_cuda(const Tensor& gate, const Tensor& up) {
  SHOAL_ASSERT(takes(gate, up));
  const DeviceScope device(gate);
  const Tensor gates = gate.contiguous(), ups = up.contiguous(), out = at::empty(gate.sizes(), gate.options());
  if (!device.has_memory()) return out;
  kernels::swiglu(shape_of(gate), gates.data_ptr(), ups.data_ptr(), out.data_ptr(), device.stream());
  return out;
}

Gradients swiglu_backward_cuda(const Tensor& grad, const Tensor& gate, const Tensor& up) {
  SHOAL_ASSERT(takes(gate, up) && takes(gate, grad));
  const DeviceScope device(gate);
  const Tensor grads = grad.contiguous(), gates = gate.contiguous(), ups = up.contiguous();
  const Tensor dgate = at::empty(gate.sizes(), gate.options()), dup = at::empty(gate.sizes(), gate.options());
  if (!device.has_memory()) return {dgate, dup};
  kernels::swiglu_backward(shape_of(gate),
                           {.grad = grads.data_ptr(),
                            .gate = gates.data_ptr(),
                            .up = ups.data_ptr(),
                            .dgate = dgate.data_ptr(),
                            .dup = dup.data_ptr()},
                           device.stream());
  return {dgate, dup};
}

TORCH_LIBRARY_IMPL(shoal, CUDA, library) {
  library.impl("swiglu", &swiglu_cuda);
  library.impl("swiglu_backward", &swiglu_backward_cuda);
}
TORCH_LIBRARY_IMPL(shoal, Meta, library) {
  library.impl("swiglu", &swiglu_cuda);
  library.impl("swiglu_backward", &swiglu_backward_cuda);
}

}  // namespace

at::Tensor reference::swiglu(const at::Tensor& gate, const at::Tensor& up) { return at::silu(gate) * up; }

at::Tensor swiglu(const at::Tensor& gate, const at::Tensor& up) {
  return takes(gate, up) ? call(gate, up) : reference::swiglu(gate, up);
}

}  // namespace shoal::fused
