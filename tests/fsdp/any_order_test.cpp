// A training loop may do what it likes between two steps of the optimizer: keep gradients or reduce them, evaluate,
// look at the state, ask for the norm, throw gradients away and begin anew, leave a step out. Programs of such calls,
// drawn by a seed, give the same numbers whatever is offloaded, and on any number of ranks.
#include <gtest/gtest.h>

#include <cstdlib>
#include <random>
#include <vector>

#include "comm/fake_process_group.h"
#include "fsdp/harness.h"
#include "fsdp/micro_steps.h"
#include "fsdp/runtime.h"
#include "support/on_ranks.h"

namespace shoal::testing {
namespace {

using fsdp::Offload;
using fsdp::Strategy;

constexpr int kMicroSteps = 3, kSteps = 7;

unsigned programs() {
  const char* const wanted = std::getenv("SHOAL_ORDER_PROGRAMS");
  return wanted != nullptr ? static_cast<unsigned>(std::strtoul(wanted, nullptr, 10)) : 6;
}

struct Call {
  enum class Kind { train, evaluate, look, norm, drop, step };
  Kind kind;
  int step = 0, micro = 0;
  bool reduces = true, sums_replicas = true;
};
using Program = std::vector<Call>;

class Author {
 public:
  // Without `defers` replicas sum each micro-step's gradients.
  Author(unsigned seed, bool defers) : random_(seed), defers_(defers) {}

  Program write() {
    for (step_ = 0; step_ < kSteps; ++step_) {
      while (chance(0.25)) {  // begun, and thrown away
        add_micro_steps(below(kMicroSteps), /*last_too=*/chance(0.5));
        add(Call::Kind::drop);
      }
      add_micro_steps(1 + below(kMicroSteps), /*last_too=*/true);
      if (chance(0.5)) add(Call::Kind::norm);
      add(chance(0.15) ? Call::Kind::drop : Call::Kind::step);  // as where fp16 overflows
      if (chance(0.3)) add(chance(0.5) ? Call::Kind::look : Call::Kind::evaluate);
    }
    return program_;
  }

 private:
  bool chance(double share) { return std::uniform_real_distribution<>(0, 1)(random_) < share; }
  int below(int end) { return std::uniform_int_distribution<>(0, end - 1)(random_); }
  void add(Call::Kind kind) { program_.push_back({kind, step_}); }

  void add_micro_steps(int count, bool last_too) {
    const bool keeps = chance(0.4), sums_replicas = !defers_ || chance(0.5);
    for (int micro = 0; micro < count; ++micro) {
      const bool last = last_too && micro + 1 == count;
      program_.push_back({Call::Kind::train, step_, micro, !keeps || last, sums_replicas});
      if (chance(0.2)) add(Call::Kind::evaluate);
    }
  }

  std::mt19937 random_;
  bool defers_;
  int step_ = 0;
  Program program_;
};

struct Outcome {
  std::vector<double> numbers;  // norms, and sums of what was predicted
  Weights masters;
};

// `ranks`: of the job whose micro-batches these are, where one rank goes through those of all.
Outcome carry_out(comm::ProcessGroup& world, const Program& program, MicroJob job, int ranks) {
  job.micro_batches = kMicroSteps * ranks;
  MicroTraining training = set_up(world, job);
  TestModel& model = training.model;
  const auto& sharded = training.sharded;
  constexpr double kScale = 1.0 / 16;
  const auto train = [&](const Call& call) {
    sharded->set_requires_all_reduce(call.sums_replicas);
    for (int part = world.rank(); part < ranks; part += world.size()) {
      sharded->set_requires_gradient_sync(call.reduces && part + world.size() >= ranks);
      sharded->run([&] { backward(model, job, call.step, call.micro * ranks + part); });
    }
  };
  Outcome outcome;
  for (const Call& call : program) {
    switch (call.kind) {
      case Call::Kind::train: train(call); break;
      case Call::Kind::drop: sharded->zero_grad(); break;
      case Call::Kind::step: training.optimizer->step(job.lr, kScale); break;
      case Call::Kind::look: (void)whole_masters(world, *sharded); break;
      case Call::Kind::norm: outcome.numbers.push_back(sharded->grad_norm(kScale)); break;
      case Call::Kind::evaluate: {
        const torch::NoGradGuard no_grad;
        const at::Tensor x = at::ones({2, 6}, model.module->parameters()[0].options());
        sharded->run([&] { outcome.numbers.push_back(model.forward(x).sum().to(at::kDouble).item<double>()); });
      }
    }
  }
  outcome.masters = whole_masters(world, *sharded);
  return outcome;
}

TEST(AnyOrder, OffloadChangesNoBit) {
  if (!test_device().is_cpu()) GTEST_SKIP() << "two processors divide by gradients that may be small";
  on_ranks([](comm::ProcessGroup& world) {
    for (unsigned seed = 0; seed < programs(); ++seed) {
      SCOPED_TRACE(seed);
      MicroJob job{.optimizer = "adamw"};
      job.strategy = std::vector{Strategy::full_shard, Strategy::shard_grad_op, Strategy::no_shard}[seed % 3];
      if (seed % 2 == 0) job.options = policy(at::kBFloat16, at::kFloat);
      if (seed % 4 > 1) job.options.activation_checkpoint = "full";
      const Program program = Author(seed, /*defers=*/false).write();
      const Outcome without = carry_out(world, program, job, world.size());
      for (const Offload offload : {Offload::optimizer, Offload::params}) {
        job.options.offload = offload;
        job.options.offload_on_cpu = true;
        const Outcome with = carry_out(world, program, job, world.size());
        EXPECT_EQ(with.numbers, without.numbers);
        expect_same_bits(with.masters, without.masters);
      }
    }
  });
}

TEST(AnyOrder, AnyNumberOfRanksGivesTheSame) {
  on_ranks([](comm::ProcessGroup& world) {
    for (unsigned seed = 100; seed < 100 + programs(); ++seed) {
      SCOPED_TRACE(seed);
      MicroJob job{.dtype = at::kDouble};
      job.strategy = std::vector{Strategy::full_shard, Strategy::no_shard, Strategy::hybrid_shard}[seed % 3];
      job.shard_size = world.size() % 2 == 0 ? world.size() / 2 : 1;
      const Program program = Author(seed, /*defers=*/true).write();
      const Outcome many = carry_out(world, program, job, world.size());
      job.strategy = Strategy::full_shard;
      Outcome one;
      comm::FakeWorld(1).run([&](comm::ProcessGroup& alone) { one = carry_out(alone, program, job, world.size()); });
      ASSERT_EQ(many.numbers.size(), one.numbers.size());
      for (std::size_t i = 0; i < one.numbers.size(); ++i)
        EXPECT_NEAR(many.numbers[i], one.numbers[i], 1e-9 * (1 + std::abs(one.numbers[i])));
      EXPECT_LE(largest_difference(many.masters, one.masters), 1e-9 * largest_value(one.masters));
    }
  });
}

}  // namespace
}  // namespace shoal::testing
