#include "fsdp/recompute_random.h"

#include <ATen/Context.h>
#include <ATen/core/Generator.h>

#include <mutex>

#include "fsdp/torch_internals.h"

namespace shoal::fsdp {

RandomState RandomState::current(at::Device device) {
  const torch_internals::NoInterceptScope quiet;
  RandomState state;
  const auto add = [&](at::Device of) {
    at::Generator generator = at::globalContext().defaultGenerator(of);
    const std::lock_guard lock(generator.mutex());
    state.generators_.push_back({of, generator.get_state()});
  };
  add(at::kCPU);
  if (!device.is_cpu() && !device.is_meta()) add(device);
  return state;
}

void RandomState::restore() const {
  const torch_internals::NoInterceptScope quiet;
  for (const Generator& saved : generators_) {
    at::Generator generator = at::globalContext().defaultGenerator(saved.device);
    const std::lock_guard lock(generator.mutex());
    generator.set_state(saved.state);
  }
}

}  // namespace shoal::fsdp
