// A model that a rank could hold, to see that it does not.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cstdio>
#include <fstream>
#include <string>

#include "fsdp/deferred_init.h"
#include "fsdp/fully_shard.h"
#include "support/on_ranks.h"

namespace shoal::testing {
namespace {

constexpr std::int64_t kWidth = 1448;  // a layer of 8 MiB
constexpr int kLayers = 48;
constexpr double kWholeMib = 4.0 * kWidth * (kWidth + 1) * kLayers / (1 << 20);

// VmRSS: resident now; VmHWM: the most there ever was.
double status_mib(const std::string& key) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with(key + ":")) return std::stod(line.substr(key.size() + 1)) / 1024;
  return 0;
}

std::shared_ptr<torch::nn::SequentialImpl> make_layers() {
  auto layers = std::make_shared<torch::nn::SequentialImpl>();
  for (int i = 0; i < kLayers; ++i) layers->push_back(torch::nn::Linear(kWidth, kWidth));
  return layers;
}

// The constructor draws every layer from LibTorch's global generator: each rank makes every draw.
TEST(DeferredMemory, ARankNeverHoldsTheWholeModel) {
  on_ranks(4, [](comm::ProcessGroup& world) {
    comm::DeviceMesh mesh(world, world, world.size());
    (void)torch::rand({1000});
    const double before = status_mib("VmRSS");
    fsdp::DeferredInit deferred;
    std::shared_ptr<torch::nn::SequentialImpl> layers;
    deferred.record([&] {
      torch::manual_seed(2);
      layers = make_layers();
    });
    const double recorded = status_mib("VmHWM") - before;
    EXPECT_LT(recorded, 0.1 * kWholeMib);
    const auto sharded =
        fsdp::fully_shard(layers, mesh, *fsdp::parse_wrap_policy("class:Linear"), {.deferred_init = &deferred});
    const double peak = status_mib("VmHWM") - before;
    std::printf("whole %.0f MiB; recorded %.0f, sharded %.0f MiB more than before at the most\n", kWholeMib, recorded,
                peak);
    // A quarter is this rank's shard; beside it, one layer or two.
    EXPECT_LT(peak, 0.25 * kWholeMib + 8 * kWholeMib / kLayers);
    EXPECT_GT(peak, 0.25 * kWholeMib * 0.9);  // the shard itself: what was measured is what was meant
  });
}

}  // namespace
}  // namespace shoal::testing
