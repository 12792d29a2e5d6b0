#include "fused/rope.h"

#include <torch/torch.h>

#include <array>

#include "core/check.h"
#include "fused/operators.h"
#include "kernels/rope.h"

namespace shoal::fused {
namespace {

using at::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

TORCH_LIBRARY_FRAGMENT(shoal, library) {
  library.def("rotate(Tensor x, Tensor cos, Tensor sin, bool backward) -> Tensor");
}

Tensor call(const Tensor& x, const Tensor& cos, const Tensor& sin, bool backward) {
  static const auto op = operator_named<Tensor(const Tensor&, const Tensor&, const Tensor&, bool)>("shoal::rotate");
  return op.call(x, cos, sin, backward);
}

// A rotation's gradient is the rotation by the opposite angle, which is the same operator.
struct Rotate : torch::autograd::Function<Rotate> {
  static Tensor forward(AutogradContext* ctx, const Tensor& x, const Tensor& cos, const Tensor& sin, bool backward) {
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    ctx->save_for_backward({cos, sin});
    ctx->saved_data["backward"] = backward;
    return call(x, cos, sin, backward);
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    const variable_list saved = ctx->get_saved_variables();
    return {call(grads[0], saved[0], saved[1], !ctx->saved_data["backward"].toBool()), {}, {}, {}};
  }
};

Tensor rotate_autograd(const Tensor& x, const Tensor& cos, const Tensor& sin, bool backward) {
  return Rotate::apply(x, cos, sin, backward);
}

TORCH_LIBRARY_IMPL(shoal, Autograd, library) { library.impl("rotate", &rotate_autograd); }

// Tables that want a gradient are the reference's.
bool takes(const Tensor& x, const Tensor& cos, const Tensor& sin) {
  if (!is_for_kernels(x) || !are_like(x, {cos, sin}) || x.dim() != 4 || x.size(3) % 2 != 0) return false;
  const std::array<std::int64_t, 2> table{x.size(1), x.size(3)};
  return cos.sizes() == at::IntArrayRef(table) && sin.sizes() == at::IntArrayRef(table) &&
         !records_gradient({cos, sin});
}

// Heads side by side at each place, and places at equal distances: a part of a wider projection too.
bool has_row_stride(const Tensor& x) {
  const bool heads_touch = x.stride(3) == 1 && (x.size(2) == 1 || x.stride(2) == x.size(3));
  return heads_touch && (x.size(0) == 1 || x.stride(0) == x.size(1) * x.stride(1));
}

Tensor rotate_cuda(const Tensor& x, const Tensor& cos, const Tensor& sin, bool backward) {
  SHOAL_ASSERT(takes(x, cos, sin));
  const DeviceScope device(x);
  const Tensor rows = has_row_stride(x) ? x : x.contiguous();
  const Tensor cosines = cos.contiguous(), sines = sin.contiguous(), out = at::empty(x.sizes(), x.options());
  if (!device.has_memory()) return out;
  kernels::rotate({.x = rows.data_ptr(),
                   .cos = cosines.data_ptr(),
                   .sin = sines.data_ptr(),
                   .out = out.data_ptr(),
                   .places = x.size(0) * x.size(1),
                   .length = x.size(1),
                   .row_stride = rows.stride(1),
                   .heads = static_cast<int>(x.size(2)),
                   .d = static_cast<int>(x.size(3)),
                   .dtype = dtype_of(x),
                   .backward = backward},
                  device.stream());
  return out;
}

TORCH_LIBRARY_IMPL(shoal, CUDA, library) { library.impl("rotate", &rotate_cuda); }
TORCH_LIBRARY_IMPL(shoal, Meta, library) { library.impl("rotate", &rotate_cuda); }

}  // namespace

at::Tensor reference::rotate(const at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin) {
  const auto halves = x.chunk(2, -1);
  return x * cos.unsqueeze(1) + at::cat({-halves[1], halves[0]}, -1) * sin.unsqueeze(1);
}

at::Tensor rotate(const at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin) {
  return takes(x, cos, sin) ? call(x, cos, sin, /*backward=*/false) : reference::rotate(x, cos, sin);
}

}  // namespace shoal::fused
