// What recomputation costs in time and saves in memory on the CPU, side by side within one run: LibTorch's own
// TransformerEncoderLayers, dropout included, each a unit, on one rank.
//   recompute_bench [rounds]      one JSON line a policy; docs/benchmarks.md holds measured ones
#include <fmt/core.h>
#include <torch/torch.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <vector>

#include "comm/fake_process_group.h"
#include "core/timer.h"
#include "fsdp/fully_shard.h"
#include "support/live_bytes.h"

namespace {

using namespace shoal;

constexpr int kLayers = 6, kWidth = 256, kSequence = 128, kBatch = 8;

struct EncoderImpl : torch::nn::Module {
  EncoderImpl() {
    layers = register_module("layers", torch::nn::ModuleList());
    const auto options = torch::nn::TransformerEncoderLayerOptions(kWidth, 4).dim_feedforward(4 * kWidth).dropout(0.1);
    for (int i = 0; i < kLayers; ++i) layers->push_back(torch::nn::TransformerEncoderLayer(options));
    head = register_module("head", torch::nn::Linear(kWidth, kWidth));
  }
  at::Tensor forward(at::Tensor x) {
    for (const auto& layer : *layers) x = layer->as<torch::nn::TransformerEncoderLayer>()->forward(x);
    return head(x);
  }
  torch::nn::ModuleList layers{nullptr};
  torch::nn::Linear head{nullptr};
};

struct Job {
  std::shared_ptr<EncoderImpl> model = std::make_shared<EncoderImpl>();
  std::unique_ptr<comm::DeviceMesh> mesh;
  std::unique_ptr<fsdp::FullyShardedModule> fsdp;
  at::Tensor input = torch::randn({kSequence, kBatch, kWidth});
  std::vector<double> seconds;

  Job(comm::ProcessGroup& world, const std::string& policy) {
    mesh = std::make_unique<comm::DeviceMesh>(world, world, 1);
    fsdp = fsdp::fully_shard(model, *mesh, *fsdp::parse_wrap_policy("class:TransformerEncoderLayer"),
                             {.activation_checkpoint = policy});
  }
  void step() {
    const Timer timer;
    fsdp->run([&] { model->forward(input).square().sum().backward(); });
    seconds.push_back(timer.seconds());
    fsdp->zero_grad();
  }
  std::int64_t peak_bytes() {
    testing::LiveBytes bytes;
    step();
    return bytes.peak();
  }
};

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2), values.end());
  return values[values.size() / 2];
}

}  // namespace

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 7;
  torch::set_num_threads(1);
  comm::FakeWorld(1).run([&](comm::ProcessGroup& world) {
    std::map<std::string, Job> jobs;
    for (const std::string policy : {"none", "every:2", "selective", "full"}) jobs.try_emplace(policy, world, policy);
    std::map<std::string, std::int64_t> peaks;
    for (auto& [policy, job] : jobs) job.step(), peaks[policy] = job.peak_bytes(), job.seconds.clear();
    for (int i = 0; i < rounds; ++i)
      for (auto& [policy, job] : jobs) job.step();
    for (const auto& [policy, job] : jobs) {
      std::vector<double> ratios;
      for (int i = 0; i < rounds; ++i)
        ratios.push_back(job.seconds[static_cast<std::size_t>(i)] /
                         jobs.at("none").seconds[static_cast<std::size_t>(i)]);
      fmt::print(
          "{{\"bench\": \"recompute\", \"policy\": \"{}\", \"rounds\": {}, \"step_ms\": {:.1f}, \"step_over_none\": "
          "{:.3f}, \"peak_mib\": {:.1f}, \"peak_over_none\": {:.3f}}}\n",
          policy, rounds, median(job.seconds) * 1e3, median(ratios), static_cast<double>(peaks[policy]) / (1 << 20),
          static_cast<double>(peaks[policy]) / static_cast<double>(peaks["none"]));
    }
  });
  return 0;
}
