// When units are gathered and reduced, and in which memory: what the options promise, and that none of it shows in the
// result.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <stdexcept>

#include "core/error.h"
#include "fsdp/watched.h"

namespace shoal::testing {
namespace {

struct Schedule {
  int forward, backward;
  bool post;
  int limit;
};
const std::vector<Schedule> kSchedules{{0, 0, false, 0}, {1, 1, false, 0}, {2, 3, false, 0}, {1, 1, true, 0},
                                       {0, 5, true, 0},  {1, 1, false, 1}, {2, 2, false, 2}, {3, 3, true, 2}};

fsdp::FullyShardOptions options_of(const Schedule& schedule) {
  fsdp::FullyShardOptions options = policy(at::kBFloat16, at::kFloat);
  options.forward_prefetch = schedule.forward;
  options.backward_prefetch = schedule.backward;
  options.backward_prefetch_post = schedule.post;
  options.limit_all_gathers = schedule.limit;
  return options;
}

std::string text(const Schedule& s) {
  return fmt::format("forward {}, backward {}, post {}, limit {}", s.forward, s.backward, s.post, s.limit);
}

std::unique_ptr<Watched> watch(comm::ProcessGroup& world, const fsdp::FullyShardOptions& options, int shard_size,
                               int regather_size = 0) {
  return watch(world, MicroJob{.options = options}, shard_size, regather_size);
}

void train(Watched& watched, comm::ProcessGroup& world) {
  watched.sharded->run([&] { backward(watched.model, {}, 0, world.rank() % 4); });
}

void evaluate(Watched& watched) {
  const torch::NoGradGuard no_grad;
  const auto type = watched.model.module->parameters()[0].scalar_type();
  watched.sharded->run([&] {
    (void)watched.model.forward(at::ones({2, 6}, at::TensorOptions(test_device()).dtype(type)));
  });
}

TEST(Schedule, ChangesNoBit) {
  on_ranks([](comm::ProcessGroup& world) {
    for (auto* const make : {make_mlp, make_twice}) {
      MicroJob job{.make = make, .steps = 4, .options = options_of(kSchedules[0])};
      const MicroResult plain = train_micro(world, job);
      for (const Schedule& schedule : kSchedules) {
        SCOPED_TRACE(text(schedule));
        job.options = options_of(schedule);
        const MicroResult result = train_micro(world, job);
        expect_same_bits(plain.masters, result.masters);
        EXPECT_EQ(plain.norms, result.norms);
      }
    }
  });
}

// There are as many buffers for whole units as there may be whole ones, and none is made later.
TEST(Schedule, NoMoreUnitsAreWholeThanItSays) {
  on_ranks([](comm::ProcessGroup& world) {
    for (const Schedule& schedule : kSchedules) {
      SCOPED_TRACE(text(schedule));
      const auto watched = watch(world, options_of(schedule), world.size());
      for (int i = 0; i < 4; ++i) {
        train(*watched, world);
        evaluate(*watched);
        watched->sharded->zero_grad();
      }
      EXPECT_EQ(watched->sharded->runtime().unplanned_buffers(), 0);
    }
  });
}

TEST(Schedule, TheNextUnitIsGatheredBeforeOrAfterTheReduction) {
  on_ranks([](comm::ProcessGroup& world) {
    if (world.size() == 1) return;  // nothing is gathered
    for (const bool post : {false, true}) {
      const auto watched = watch(world, options_of({1, 1, post, 0}), world.size());
      train(*watched, world);
      train(*watched, world);
      watched->traffic.activities.clear();
      train(*watched, world);
      const auto& calls = watched->traffic.activities;
      const auto last_gather = std::find(calls.rbegin(), calls.rend(), "the all-gather of unit 'blocks.0'").base();
      const auto reduction = std::find(calls.begin(), calls.end(), "the reduce-scatter of unit 'blocks.1'");
      ASSERT_NE(reduction, calls.end());
      EXPECT_EQ(last_gather > reduction, post);
      EXPECT_EQ(std::count(calls.begin(), calls.end(), "the all-gather of unit '(root)'"), 1);
      for (const char* stays : {"blocks.1", "blocks.2"})  // from forward to backward
        EXPECT_EQ(std::count(calls.begin(), calls.end(), fmt::format("the all-gather of unit '{}'", stays)), 1);
    }
  });
}

TEST(Schedule, UnderALimitOfOneNothingIsGatheredAhead) {
  on_ranks(2, [](comm::ProcessGroup& world) {
    const auto watched = watch(world, options_of({1, 1, false, 1}), world.size());
    int most = 0;
    for (int i = 0; i < 3; ++i)
      watched->sharded->run([&] {
        at::Tensor x = at::ones({2, 7}, at::TensorOptions(test_device()).dtype(at::kBFloat16));
        for (int b = 0; b < 3; ++b) {
          x = watched->model.module->named_modules()["blocks." + std::to_string(b)]->as<Block>()->forward(x);
          int whole = 0;
          for (const auto& unit : watched->sharded->runtime().units()) whole += !unit->is_root() && unit->unsharded();
          most = std::max(most, whole);
        }
        x.sum().backward();
      });
    EXPECT_EQ(most, 1);
  });
}

// With --reshard-after-forward forward gathers from all four ranks and backward from two, which sends a third of the
// bytes; the counts of the calls stay, nothing is allocated after the first steps, and no bit changes.
TEST(Schedule, BackwardGathersFromTheSmallerGroup) {
  on_ranks(4, [](comm::ProcessGroup& world) {
    const auto all = watch(world, options_of({1, 1, false, 0}), 4),
               two = watch(world, options_of({1, 1, false, 0}), 4, 2);
    std::int64_t bytes = 0;
    for (int i = 0; i < 5; ++i) {
      for (Watched* watched : {all.get(), two.get()}) {
        watched->traffic["all_gather"] = {};
        train(*watched, world);
        evaluate(*watched);
      }
      const fsdp::Runtime& runtime = two->sharded->runtime();
      if (i == 2) bytes = runtime.pool_bytes();
      EXPECT_TRUE(i < 2 || runtime.pool_bytes() == bytes);
    }
    std::int64_t regathered = 0;  // blocks.2 and blocks.1 stay whole at the turn
    for (const auto& unit : all->sharded->runtime().units())
      for (const auto& flat : unit->flats())
        if (unit->name() == "blocks.0") regathered += flat->sizes().whole;
    EXPECT_EQ(two->traffic["all_gather"].calls, all->traffic["all_gather"].calls);
    EXPECT_EQ(two->traffic["all_gather"].bytes - all->traffic["all_gather"].bytes, regathered / 2 - regathered / 4);
    expect_same_bits(whole_gradients(world, *all->sharded), whole_gradients(world, *two->sharded));
  });
}

TEST(Schedule, OptionsThatContradictEachOtherAreNamed) {
  on_ranks(1, [](comm::ProcessGroup& world) {
    fsdp::FullyShardOptions options = options_of({1, 1, false, 2});
    options.reshard_after_forward = false;
    EXPECT_THROW(watch(world, options, 1), OptionError);
    EXPECT_THROW(watch(world, options_of({-1, 1, false, 0}), 1), OptionError);
  });
  on_ranks(4, [](comm::ProcessGroup& world) {
    fsdp::FullyShardOptions options = options_of({1, 1, false, 0});
    for (const int size : {1, 3, 4, 8}) EXPECT_THROW(watch(world, options, 4, size), OptionError) << size;
    options.reshard_after_forward = false;
    EXPECT_THROW(watch(world, options, 4, 2), OptionError);
  });
}

// Registered memory is got once, from all ranks together; what an operator needs beyond it comes from elsewhere.
TEST(Schedule, MemoryIsPlannedBeforeTheFirstStep) {
  on_ranks([](comm::ProcessGroup& world) {
    const bool alone = world.size() == 1;
    for (const bool reshard : {true, false}) {
      fsdp::FullyShardOptions options = options_of({1, 1, false, 0});
      options.reshard_after_forward = reshard;
      const auto watched = watch(world, options, world.size());
      EXPECT_EQ(watched->traffic["allocate"].calls, alone ? 0 : 2);  // of the gathering and of the reducing group
      fsdp::Runtime& runtime = watched->sharded->runtime();
      train(*watched, world);
      evaluate(*watched);
      watched->sharded->zero_grad();
      const std::int64_t bytes = runtime.pool_bytes();  // a GPU's shards of gradients have given theirs back
      for (int i = 0; i < 3; ++i) {
        train(*watched, world);
        evaluate(*watched);
        watched->sharded->zero_grad();
        EXPECT_EQ(runtime.pool_bytes(), bytes);
      }
      EXPECT_EQ(runtime.unplanned_buffers(), 0);
      watched->sharded->summon_full_params([] {});  // all units at a time
      const int unplanned = runtime.unplanned_buffers();
      EXPECT_EQ(unplanned, alone || !reshard ? 0 : 1);
      watched->sharded->summon_full_params([] {});
      train(*watched, world);
      EXPECT_EQ(runtime.unplanned_buffers(), unplanned);
      EXPECT_EQ(watched->traffic["allocate"].calls, alone ? 0 : 2);
    }
  });
}

TEST(Schedule, AnExceptionLosesNoBuffer) {
  on_ranks([](comm::ProcessGroup& world) {
    const auto watched = watch(world, options_of({1, 1, false, 0}), world.size());
    fsdp::Runtime& runtime = watched->sharded->runtime();
    train(*watched, world);
    watched->sharded->zero_grad();
    const std::int64_t bytes = runtime.pool_bytes();
    for (int i = 0; i < 3; ++i) {
      EXPECT_THROW(watched->sharded->run([&] {
        at::Tensor out =
            watched->model.forward(at::ones({2, 6}, at::TensorOptions(test_device()).dtype(at::kBFloat16)));
        const int calls_left = i;
        out.register_hook([calls_left](const at::Tensor& grad) -> at::Tensor {
          if (calls_left == 0) throw std::runtime_error("at the beginning of backward");
          return grad;
        });
        out.sum().backward();
        throw std::runtime_error("after backward");
      }),
                   std::runtime_error);
      train(*watched, world);
      watched->sharded->zero_grad();
    }
    EXPECT_EQ(runtime.pool_bytes(), bytes);
    EXPECT_EQ(runtime.unplanned_buffers(), 0);
  });
}

// The sum over replicas of a unit is under way while the next unit's gradients are reduced.
TEST(Schedule, ReplicasAreSummedInTheOrderOfTheReductions) {
  on_ranks(4, [](comm::ProcessGroup& world) {
    const auto watched = watch(world, options_of({1, 1, false, 0}), 2);
    watched->sharded->set_requires_all_reduce(true);
    for (int i = 0; i < 3; ++i) {
      watched->traffic.activities.clear();
      train(*watched, world);
      std::vector<std::string> sums;
      for (const std::string& call : watched->traffic.activities)
        if (call.starts_with("the sum over the replicas")) sums.push_back(call);
      const auto of = [](const std::string& unit) { return "the sum over the replicas of unit '" + unit + "'"; };
      EXPECT_EQ(sums, (std::vector{of("blocks.2"), of("blocks.1"), of("blocks.0"), of("(root)")}));
    }
  });
}

}  // namespace
}  // namespace shoal::testing
