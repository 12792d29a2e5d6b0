// The optimizer's step on the host, as offload has it: AdamW over fp32 masters with a 16-bit copy of the result, ours
// against LibTorch's fused step followed by a cast, and the norm before it. Prints GB/s of the memory that has to be
// moved: 30 bytes an element, 4 for the norm.
//
//   host_step_bench [ELEMENTS [THREADS]]
#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <string>

#include "fsdp/host_step.h"
#include "optim/optimizer.h"

namespace {

using namespace shoal;
using Clock = std::chrono::steady_clock;

constexpr double kStepBytes = 30;  // p, m, v read and written, g read, two bytes written
constexpr int kTimes = 7;

double best_seconds(const std::function<void()>& work) {
  double best = 1e9;
  for (int i = 0; i < kTimes; ++i) {
    const auto start = Clock::now();
    work();
    best = std::min(best, std::chrono::duration<double>(Clock::now() - start).count());
  }
  return best;
}

void print(const char* what, std::int64_t elements, double bytes, double seconds) {
  std::printf("%-44s %8.2f ms  %7.2f GB/s  %.2f ns an element\n", what, 1e3 * seconds,
              1e-9 * bytes * static_cast<double>(elements) / seconds, 1e9 * seconds / static_cast<double>(elements));
}

void step_ours(const fsdp::HostArrays& arrays, const char* what) {
  const auto rule = optim::make_optimizer({.name = "adamw", .weight_decay = 0.1});
  const std::int64_t elements = arrays.master.numel();
  const std::vector<fsdp::GroupSpan> spans{{0, {0, elements}}};
  const std::vector<optim::GroupRule> groups(1);
  std::int64_t step = 0;
  print(what, elements, kStepBytes, best_seconds([&] {
          fsdp::step_on_host(*rule, arrays, spans, groups, {++step, 1e-4, 0.5});
        }));
}

void step_torch(const fsdp::HostArrays& arrays) {
  const std::vector<at::Tensor> none;
  const at::Tensor step = at::ones({}), scale = at::full({}, 2.0F);
  const std::int64_t elements = arrays.master.numel();
  print("torch's fused AdamW, then a cast", elements, kStepBytes, best_seconds([&] {
          at::_fused_adamw_({arrays.master}, {arrays.gradient}, {arrays.states[0]}, {arrays.states[1]}, none, {step},
                            1e-4, 0.9, 0.999, 0.1, 1e-8, false, false, scale);
          at::Tensor(arrays.rounded).copy_(arrays.master);
        }));
}

}  // namespace

int main(int argc, char** argv) {
  const std::int64_t elements = argc > 1 ? std::stoll(argv[1]) : 64 << 20;
  if (argc > 2) at::set_num_threads(std::stoi(argv[2]));
  std::printf("%lld elements, %d threads\n", static_cast<long long>(elements), at::get_num_threads());
  fsdp::HostArrays arrays{at::randn({elements}),
                          at::randn({elements}) * 1e-3,
                          {at::zeros({elements}), at::zeros({elements})},
                          at::zeros({elements}, at::kBFloat16)};
  step_ours(arrays, "ours, bfloat16");
  step_torch(arrays);
  arrays.rounded = at::zeros({elements}, at::kHalf);
  step_ours(arrays, "ours, float16");
  step_torch(arrays);
  arrays.rounded.reset();
  step_ours(arrays, "ours, nothing rounded");
  print("the norm", elements, 4, best_seconds([&] { arrays.gradient.norm(); }));
}
