#include "core/error.h"
#include "kernels/matmul.h"

namespace shoal::kernels {
namespace {

[[noreturn]] void refuse() {
  throw DeviceError("this build has no CUDA backend: there are no matrix products on a GPU");
}

}  // namespace

bool try_matmul(const Matmul& /*product*/, Stream /*stream*/) { refuse(); }

void matmul(const Matmul& /*product*/, Stream /*stream*/) { refuse(); }

double seconds_spent_on_choice() { return 0; }

}  // namespace shoal::kernels
