// Gradients that are computed where they are sent from: what an operator asks for, when it gets it, and that the result
// is that of gradients which are copied there.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <atomic>

#include "core/parameter_owner.h"
#include "fsdp/micro_steps.h"
#include "support/on_ranks.h"

namespace shoal::testing {
namespace {

constexpr std::int64_t kWidth = 8;  // rows of 16 bytes at least

std::atomic<bool> g_asks{false};  // whether operators ask for places
std::atomic<int> g_placed{0}, g_refused{0};

at::Tensor gradient_for(const at::Tensor& parameter) {
  auto* const owner = parameter.storage().data_ptr().cast_context<ParameterOwner>(&lent_by_owner);
  if (owner == nullptr || !g_asks) return at::empty_like(parameter);
  const std::int64_t begin = parameter.storage_offset() * parameter.element_size();
  void* const place = owner->gradient_place(begin, static_cast<std::int64_t>(parameter.nbytes()));
  ++(place != nullptr ? g_placed : g_refused);
  return place != nullptr ? at::from_blob(place, parameter.sizes(), parameter.options()) : at::empty_like(parameter);
}

// x W^T
struct Product : torch::autograd::Function<Product> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x, const at::Tensor& weight) {
    context->save_for_backward({x, weight});
    return at::linear(x, weight);
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    const auto saved = context->get_saved_variables();
    const at::Tensor of_x = gradients[0].matmul(saved[1]);
    at::Tensor of_weight = gradient_for(saved[1]);
    at::mm_out(of_weight, gradients[0].flatten(0, -2).t(), saved[0].flatten(0, -2));
    return {of_x, of_weight};
  }
};

struct LayerImpl : torch::nn::Module {
  LayerImpl() : weight(register_parameter("weight", at::empty({kWidth, kWidth}, at::kDouble))) {}
  at::Tensor forward(const at::Tensor& x) { return Product::apply(x, weight).tanh(); }
  at::Tensor weight;
};

// Of five products, two share a weight.
struct LayersImpl : torch::nn::Module {
  LayersImpl() {
    for (int i = 0; i < 4; ++i) layers->push_back(std::make_shared<LayerImpl>());
    register_module("layers", layers);
    out = register_module("out", torch::nn::Linear(kWidth, 5));
    to(at::kDouble);
  }
  at::Tensor forward(const at::Tensor& input) {
    at::Tensor x = at::constant_pad_nd(input, {0, kWidth - input.size(-1)});
    for (const int i : {0, 1, 2, 3, 2}) x = layers[static_cast<std::size_t>(i)]->as<LayerImpl>()->forward(x);
    return out(x);
  }
  torch::nn::ModuleList layers;
  torch::nn::Linear out{nullptr};
};

TestModel make_layers() {
  const auto module = std::make_shared<LayersImpl>();
  return {module, [module](const at::Tensor& x) { return module->forward(x); }};
}

struct Asked {
  MicroResult result;
  int placed, refused;  // by all ranks
};

Asked train(comm::ProcessGroup& world, const MicroJob& job, bool asks) {
  world.barrier();
  g_asks = asks;
  g_placed = g_refused = 0;
  world.barrier();
  const MicroResult result = train_micro(world, job);
  world.barrier();
  const bool threads = std::string_view(world.backend()) == "fake";  // which share the counts
  const auto all = [&](int count) {
    return threads ? count : static_cast<int>(comm::all_reduce(world, static_cast<double>(count), comm::ReduceOp::sum));
  };
  Asked asked{result, all(g_placed), all(g_refused)};
  world.barrier();
  return asked;
}

MicroJob job_of(const char* wrap, at::ScalarType param, const char* recomputed) {
  MicroJob job{.make = make_layers, .micro_batches = 12, .wrap = wrap, .options = policy(param, at::kFloat)};
  job.options.activation_checkpoint = recomputed;
  return job;
}

TEST(GradientPlaces, GiveTheSameBits) {
  on_ranks([](comm::ProcessGroup& world) {
    for (const char* wrap : {"none", "class:Layer"})
      for (const auto param : {at::kBFloat16, at::kFloat})
        for (const char* recomputed : {"none", "full"}) {
          SCOPED_TRACE(fmt::format("{}, {}, recomputed {}", wrap, c10::toString(param), recomputed));
          const MicroJob job = job_of(wrap, param, recomputed);
          const Asked copied = train(world, job, false), in_place = train(world, job, true);
          expect_same_bits(copied.result.masters, in_place.result.masters);
          EXPECT_EQ(copied.placed, 0);
          // Of each micro-batch, also those that a rank only goes through the motions for; a second one of a weight is
          // added to the first.
          const int micro_steps = (job.micro_batches + world.size() - 1) / world.size() * job.steps * world.size();
          EXPECT_EQ(in_place.placed, world.size() > 1 ? 4 * micro_steps : 0);
          EXPECT_EQ(in_place.placed + in_place.refused, 5 * micro_steps);
        }
  });
}

TEST(GradientPlaces, AreNotGivenForSumsOfSeveralPasses) {
  on_ranks([](comm::ProcessGroup& world) {
    MicroJob job = job_of("class:Layer", at::kBFloat16, "none");
    job.accumulation = Accumulation::keep;
    const Asked copied = train(world, job, false), asking = train(world, job, true);
    expect_same_bits(copied.result.masters, asking.result.masters);
    EXPECT_GT(asking.refused, 0);
    EXPECT_EQ(asking.placed, world.size() >= job.micro_batches ? 4 * job.steps * world.size() : 0);
  });
}

}  // namespace
}  // namespace shoal::testing
