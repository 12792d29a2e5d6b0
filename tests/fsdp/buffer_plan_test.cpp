// Where units have their buffers: no two that are there at a time overlap, and no more memory is planned than that
// takes.
#include "fsdp/buffer_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <random>

namespace shoal::testing {
namespace {

using fsdp::BufferPlan;
using fsdp::BufferPlans;
using fsdp::FlatSizes;
using fsdp::UnitSizes;

constexpr std::int64_t kPage = fsdp::kBufferAlignment;

UnitSizes unit(const std::string& fqn, const std::vector<std::int64_t>& pages) {
  UnitSizes sizes{.fqn = fqn};
  for (const std::int64_t size : pages)
    sizes.flats.push_back({.whole = size * kPage, .sent = size * kPage, .received = size * kPage});
  return sizes;
}

// A language model: embedding, blocks of 40 pages, head.
std::vector<UnitSizes> language_model(std::int64_t ends) {
  std::vector<UnitSizes> units{unit("", {1}), unit("embed", {ends})};
  for (int i = 0; i < 5; ++i) units.push_back(unit("block" + std::to_string(i), {40}));
  units.push_back(unit("head", {ends}));
  return units;
}

TEST(BufferPlan, OfEqualUnitsIsAsManyAsThereAreAtATime) {
  const BufferPlans plans = fsdp::plan_buffers(language_model(40), {});
  EXPECT_EQ(plans.parameters.shared, 2 * 40 * kPage);  // one in use and one ahead
  EXPECT_EQ(plans.sent.shared, 3 * 40 * kPage);        // two on their way and one that is collected
  EXPECT_EQ(plans.received.shared, 2 * 40 * kPage);
  for (const BufferPlan* plan : {&plans.parameters, &plans.sent, &plans.received}) EXPECT_EQ(plan->root, kPage);
  EXPECT_EQ(plans.in_flight, std::vector<std::size_t>(8, 2));
}

// Beside an embedding or a head there is room for one block, and theirs is the only reduction.
TEST(BufferPlan, OfUnequalUnitsIsWhatNeighboursNeed) {
  const BufferPlans plans = fsdp::plan_buffers(language_model(100), {});
  EXPECT_EQ(plans.parameters.shared, 140 * kPage);
  EXPECT_EQ(plans.sent.shared, 140 * kPage);
  EXPECT_EQ(plans.received.shared, 100 * kPage);
  EXPECT_EQ(plans.in_flight, (std::vector<std::size_t>{2, 1, 1, 2, 2, 2, 1, 2}));
}

TEST(BufferPlan, WithoutReshardingEachUnitHasItsOwn) {
  const BufferPlans plans = fsdp::plan_buffers(language_model(100), {.reshard_after_forward = false});
  EXPECT_EQ(plans.parameters.shared, 400 * kPage);
  EXPECT_EQ(plans.sent.shared, 140 * kPage);
}

TEST(BufferPlan, FrozenUnitsHaveParametersAlone) {
  std::vector<UnitSizes> units = language_model(100);
  for (FlatSizes& flat : units.back().flats) flat.sent = flat.received = 0;
  const BufferPlans plans = fsdp::plan_buffers(units, {});
  EXPECT_EQ(plans.parameters.shared, 140 * kPage);
  EXPECT_EQ(plans.in_flight, (std::vector<std::size_t>{2, 1, 1, 2, 2, 2, 2, 2}));
}

// The buffers that are there at a time, as the engine takes them.
class Held {
 public:
  Held(const std::vector<UnitSizes>& units, const BufferPlan& plan, std::int64_t FlatSizes::*size)
      : units_(&units), plan_(&plan), size_(size) {}

  void take(std::size_t u) {
    std::int64_t bytes = 0;
    for (std::size_t f = 0; f < plan_->places[u].size(); ++f) {
      const std::int64_t begin = plan_->places[u][f], end = begin + (*units_)[u].flats[f].*size_;
      EXPECT_LE(end, plan_->shared);
      EXPECT_EQ(begin % kPage, 0);
      for (const auto& [other_unit, other_begin, other_end] : held_) {
        EXPECT_TRUE(end <= other_begin || other_end <= begin) << "units " << u << " and " << other_unit;
        bytes += other_end - other_begin;
      }
      held_.push_back({u, begin, end});
    }
    std::int64_t all = 0;
    for (const Piece& piece : held_) all += piece.end - piece.begin;
    most_ = std::max(most_, all);
  }
  void give(std::size_t u) {
    std::erase_if(held_, [u](const Piece& piece) { return piece.unit == u; });
  }
  std::int64_t most() const { return most_; }

 private:
  struct Piece {
    std::size_t unit;
    std::int64_t begin, end;
  };
  const std::vector<UnitSizes>* units_;
  const BufferPlan* plan_;
  std::int64_t FlatSizes::*size_;
  std::vector<Piece> held_;
  std::int64_t most_ = 0;
};

// Forward with prefetching, then the reductions of backward, over the units behind the root.
void play(const std::vector<UnitSizes>& units, const fsdp::FullyShardOptions& options, const BufferPlans& plans) {
  const std::size_t most = fsdp::most_whole(options);
  Held whole(units, plans.parameters, &FlatSizes::whole);
  for (std::size_t u = 1; u < units.size(); ++u) {
    whole.take(u);
    if (u >= most) whole.give(u + 1 - most);
  }
  Held sent(units, plans.sent, &FlatSizes::sent), received(units, plans.received, &FlatSizes::received);
  std::deque<std::size_t> in_flight;
  for (std::size_t u = units.size() - 1; u > 0; --u) {
    sent.take(u);
    for (; in_flight.size() >= plans.in_flight[u]; in_flight.pop_front()) {
      sent.give(in_flight.front());
      received.give(in_flight.front());
    }
    received.take(u);
    in_flight.push_back(u);
  }
  EXPECT_LE(whole.most(), plans.parameters.shared);
  EXPECT_LE(sent.most(), plans.sent.shared);
  EXPECT_LE(received.most(), plans.received.shared);
}

// What as many buffers as there are in use at a time took, each as large as the largest.
std::int64_t largest_times(const std::vector<UnitSizes>& units, std::size_t in_use, std::int64_t FlatSizes::*size) {
  std::int64_t largest = 0;
  for (std::size_t u = 1; u < units.size(); ++u) {
    std::int64_t bytes = 0;
    for (const FlatSizes& flat : units[u].flats) bytes += flat.*size;
    largest = std::max(largest, bytes);
  }
  return static_cast<std::int64_t>(std::min(in_use, units.size() - 1)) * largest;
}

TEST(BufferPlan, NothingOverlapsWhateverTheSizes) {
  std::mt19937 random(7);
  const auto below = [&random](std::uint32_t n) { return static_cast<std::int64_t>(random() % n); };
  for (int trial = 0; trial < 300; ++trial) {
    SCOPED_TRACE(trial);
    std::vector<UnitSizes> units{unit("", {3})};
    for (std::int64_t u = 1 + below(12); u > 0; --u) {
      std::vector<std::int64_t> pages;
      for (std::int64_t f = 1 + below(3); f > 0; --f) pages.push_back(1 + (below(4) == 0 ? below(100) : below(10)));
      units.push_back(unit("u" + std::to_string(u), pages));
    }
    fsdp::FullyShardOptions options;
    options.forward_prefetch = static_cast<int>(below(4));
    options.backward_prefetch = static_cast<int>(below(4));
    const BufferPlans plans = fsdp::plan_buffers(units, options);
    play(units, options, plans);
    EXPECT_LE(plans.parameters.shared, largest_times(units, fsdp::most_whole(options), &FlatSizes::whole));
    EXPECT_LE(plans.sent.shared, largest_times(units, fsdp::kReductionsInFlight + 1, &FlatSizes::sent));
    EXPECT_LE(plans.received.shared, largest_times(units, fsdp::kReductionsInFlight, &FlatSizes::received));
  }
}

}  // namespace
}  // namespace shoal::testing
