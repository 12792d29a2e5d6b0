#include "core/error.h"
#include "optim/device.h"
#include "optim/update_rules.h"

namespace shoal::optim {
namespace {

[[noreturn]] void refuse() {
  throw DeviceError("this build has no CUDA backend: the optimizer works on host memory alone");
}

}  // namespace

template <typename T, typename Rule>
void apply_on_device(const Rule& /*rule*/, T* /*param*/, const T* /*grad*/, T* /*state0*/, T* /*state1*/,
                     std::int64_t /*count*/, void* /*stream*/) {
  refuse();
}

double sum_of_squares_on_device(const void* /*data*/, DType /*dtype*/, std::int64_t /*count*/, void* /*stream*/) {
  refuse();
}

#define SHOAL_INSTANTIATE(T, ...) \
  template void apply_on_device<T, __VA_ARGS__>(const __VA_ARGS__&, T*, const T*, T*, T*, std::int64_t, void*);
#include "optim/device_rules.inc"
#undef SHOAL_INSTANTIATE

}  // namespace shoal::optim
