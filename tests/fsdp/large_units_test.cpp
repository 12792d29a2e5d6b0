// Embedding and head larger than the blocks between them, as units of their own: they are whole only while they are in
// use, buffers are no larger than neighbours need, and nothing of it shows in the result.
#include <ATen/record_function.h>
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "fsdp/memory_plan.h"
#include "fsdp/watched.h"

namespace shoal::testing {
namespace {

constexpr std::int64_t kIn = 6, kWidth = 7, kOut = 5;

// 420 parameters in the embedding and 480 in the head; a Block has 231.
struct EndsImpl : torch::nn::Module {
  EndsImpl() {
    embed = register_module("embed", torch::nn::Linear(torch::nn::LinearOptions(kIn, 10 * kWidth).bias(false)));
    blocks = register_module("blocks", torch::nn::ModuleList());
    for (int i = 0; i < 3; ++i) blocks->push_back(Block(kWidth));
    norm = register_module("norm", torch::nn::LayerNorm(torch::nn::LayerNormOptions({kWidth})));
    head = register_module("head", torch::nn::Linear(kWidth, 12 * kOut));
    to(at::kDouble);
  }
  at::Tensor forward(const at::Tensor& input) {
    at::Tensor x = embed(input).unflatten(-1, {10, kWidth}).mean(-2);
    for (const auto& block : *blocks) x = block->as<Block>()->forward(x);
    return at::log_softmax(head(norm(x)), -1).unflatten(-1, {12, kOut}).mean(-2);
  }
  torch::nn::Linear embed{nullptr}, head{nullptr};
  torch::nn::ModuleList blocks{nullptr};
  torch::nn::LayerNorm norm{nullptr};
};

TestModel make_ends() {
  const auto module = std::make_shared<EndsImpl>();
  return {module, [module](const at::Tensor& x) { return module->forward(x); }};
}

const char* const kBlocks = "class:Block";
const char* const kRest = "class:Block+rest:300";

MicroJob job_with(const char* wrap, at::ScalarType param) {
  return {.make = make_ends, .wrap = wrap, .options = policy(param, at::kFloat)};
}

TEST(LargeUnits, ChangeNoBit) {
  on_ranks([](comm::ProcessGroup& world) {
    for (const auto param : {at::kBFloat16, at::kFloat})
      for (const auto accumulation : {Accumulation::reduce, Accumulation::keep})
        for (const char* recomputed : {"none", "full"}) {
          SCOPED_TRACE(
              fmt::format("{}, {}, recomputed {}", c10::toString(param), static_cast<int>(accumulation), recomputed));
          MicroJob job = job_with(kBlocks, param);
          job.accumulation = accumulation;
          const MicroResult in_root = train_micro(world, job);
          job.wrap = kRest;
          job.options.activation_checkpoint = recomputed;
          expect_same_bits(in_root.masters, train_micro(world, job).masters);
        }
  });
}

std::unique_ptr<Watched> run_with(comm::ProcessGroup& world, const char* wrap, const fsdp::FullyShardOptions& options) {
  return watch(world, {.make = make_ends, .wrap = wrap, .options = options}, world.size());
}

void train(Watched& run, comm::ProcessGroup& world) {
  run.sharded->run([&] { backward(run.model, {.make = make_ends}, 0, world.rank() % 4); });
  run.sharded->zero_grad();
}

// In module order: each of the last two stays whole from forward to backward, and the embedding is not needed there.
TEST(LargeUnits, AreGatheredWhenTheyAreNeeded) {
  on_ranks([](comm::ProcessGroup& world) {
    if (world.size() == 1) return;
    const auto run = run_with(world, kRest, policy(at::kBFloat16, at::kFloat));
    for (int i = 0; i < 3; ++i) {
      run->traffic.activities.clear();
      train(*run, world);
    }
    std::vector<std::string> gathers;
    for (const std::string& call : run->traffic.activities)
      if (const std::string start = "the all-gather of unit "; call.starts_with(start))
        gathers.push_back(call.substr(start.size()));
    EXPECT_EQ(gathers, (std::vector<std::string>{"'embed'", "'blocks.0'", "'blocks.1'", "'blocks.2'", "'(root)'",
                                                 "'head'", "'blocks.1'", "'blocks.0'"}));
  });
}

TEST(LargeUnits, HaveBuffersForNeighboursAlone) {
  on_ranks([](comm::ProcessGroup& world) {
    if (world.size() == 1) return;
    for (const bool exchanged : {true, false}) {
      const auto options = policy(exchanged ? at::kBFloat16 : at::kFloat, at::kFloat);
      const auto run = run_with(world, kRest, options), in_root = run_with(world, kBlocks, options);
      fsdp::Runtime& runtime = run->sharded->runtime();
      train(*run, world);
      const std::int64_t bytes = runtime.pool_bytes();
      for (int i = 0; i < 3; ++i) {
        train(*run, world);
        const torch::NoGradGuard no_grad;
        run->sharded->run([&] {
          (void)run->model.forward(
              at::ones({2, kIn}, at::TensorOptions(test_device()).dtype(exchanged ? at::kBFloat16 : at::kFloat)));
        });
        EXPECT_EQ(runtime.pool_bytes(), bytes);
      }
      EXPECT_EQ(runtime.unplanned_buffers(), 0);
      EXPECT_LT(fsdp::plan_of(*run->sharded, 2, 0).unit_buffers, fsdp::plan_of(*in_root->sharded, 2, 0).unit_buffers);
    }
  });
}

std::map<std::string, int>& calls_seen() {
  static std::map<std::string, int> calls;
  return calls;
}

std::unique_ptr<at::ObserverContext> note_call(const at::RecordFunction& call) {
  ++calls_seen()[call.name()];
  return nullptr;
}

// What the head's operators saved is kept, as it is where they are the root's.
TEST(LargeUnits, AreNotRecomputed) {
  on_ranks(1, [](comm::ProcessGroup& world) {
    if (!test_device().is_cpu()) return;
    fsdp::FullyShardOptions options;
    options.activation_checkpoint = "full";
    const auto run = run_with(world, kRest, options);
    calls_seen().clear();
    const auto handle = at::addThreadLocalCallback(at::RecordFunctionCallback(note_call));
    train(*run, world);
    at::removeCallback(handle);
    EXPECT_EQ(calls_seen()["aten::_log_softmax"], 1);
    EXPECT_EQ(calls_seen()["aten::gelu"], 2 * 3);  // of the Blocks
  });
}

}  // namespace
}  // namespace shoal::testing
