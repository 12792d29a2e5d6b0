// The device's memory for gradients on their way, event by event, as it follows from the engine's rules: two reductions
// under way, two copies to the host that are not waited for, and with replicas one sum of theirs.
#include "fsdp/gradients_in_flight.h"

#include <gtest/gtest.h>

#include <optional>
#include <utility>

namespace shoal::testing {

using fsdp::Accumulation;
using fsdp::GradientEvent;
using fsdp::GradientsInFlight;

using Kind = GradientEvent::Kind;
using Moment = std::pair<std::int64_t, std::int64_t>;

namespace {

constexpr std::int64_t kUnit = 100, kRoot = 10;

// The root, and three units of one size.
std::vector<fsdp::UnitSizes> units_of(const fsdp::MeshShape& mesh, fsdp::Offload offload = fsdp::Offload::optimizer) {
  std::vector<fsdp::UnitSizes> units;
  for (const char* fqn : {"", "a", "b", "c"}) {
    fsdp::FlatSizes flat{.offload = offload};
    flat.master = flat.compute = *fqn != 0 ? kUnit : kRoot;
    if (mesh.shard > 1) flat.sent = flat.received = mesh.shard * flat.master;
    units.push_back({fqn, {flat}});
  }
  return units;
}

std::vector<GradientEvent> backward() {
  std::vector<GradientEvent> events;
  for (const std::size_t unit : {3, 2, 1, 0})
    events.insert(events.end(), {{Kind::first, unit}, {Kind::complete, unit}});
  events.push_back({Kind::end});
  return events;
}

std::vector<Moment> moments_of(const fsdp::MeshShape& mesh, const fsdp::FullyShardOptions& options) {
  std::vector<Moment> moments;
  for (const auto& moment : GradientsInFlight(units_of(mesh), mesh, options, Accumulation::none).moments(backward()))
    moments.emplace_back(moment.before, moment.during);
  return moments;
}

void expect_moments(const fsdp::MeshShape& mesh, const std::vector<Moment>& expected, std::int64_t most) {
  EXPECT_EQ(moments_of(mesh, {}), expected);
  EXPECT_EQ(GradientsInFlight(units_of(mesh), mesh, {}, Accumulation::none).device(), most);
}

}  // namespace

TEST(GradientsInFlight, ShardsAreThereFromTheEndOfTheirReduction) {
  // The copies of the last two units wait through the next forward pass.
  expect_moments(
      {.shard = 2},
      {{110, 110}, {110, 110}, {110, 110}, {110, 110}, {110, 110}, {110, 210}, {110, 110}, {110, 210}, {200, 300}},
      300);
}

TEST(GradientsInFlight, WithoutShardingGradientsAreWholeFromTheFirst) {
  expect_moments(
      {.replicate = 2},
      {{110, 210}, {210, 210}, {210, 310}, {310, 310}, {310, 410}, {410, 410}, {410, 420}, {420, 420}, {320, 320}},
      420);
}

// They are summed over the replicas in the masters' type, beside what came of the shard group.
TEST(GradientsInFlight, SixteenBitsAreReplicatedInThirtyTwo) {
  const fsdp::MeshShape mesh{.shard = 2, .replicate = 2};
  fsdp::FullyShardOptions options;
  options.mixed_precision.reduce_dtype = at::kBFloat16;
  const std::vector<Moment> moments = moments_of(mesh, options);
  EXPECT_EQ(moments.front(), Moment(110, 110));
  // Unit c: 50 that came, 100 that are summed; then unit b the same, and the copy of c, for which one of before goes.
  EXPECT_EQ(moments[5], Moment(110, 260));
  EXPECT_EQ(moments[7], Moment(210, 360));
}

TEST(GradientsInFlight, NothingIsOnItsWayWhereCopiesAreDoneAtOnce) {
  const fsdp::MeshShape mesh{.shard = 2};
  fsdp::FullyShardOptions options;
  options.offload_on_cpu = true;
  EXPECT_EQ(GradientsInFlight(units_of(mesh), mesh, options, Accumulation::none).device(), kUnit);
}

std::int64_t most_without_offload(const fsdp::MeshShape& mesh, Accumulation accumulation,
                                  std::optional<at::ScalarType> reduce_dtype = {}) {
  fsdp::FullyShardOptions options;
  options.mixed_precision.reduce_dtype = reduce_dtype;
  const GradientsInFlight plan(units_of(mesh, fsdp::Offload::none), mesh, options, accumulation);
  EXPECT_EQ(plan.host(), 0);
  return plan.device();
}

TEST(GradientsInFlight, TheGradientsOfOneMicroStepAreTheSum) {
  EXPECT_EQ(most_without_offload({.shard = 2}, Accumulation::none), 0);
  EXPECT_EQ(most_without_offload({.replicate = 2}, Accumulation::none), 0);
  EXPECT_EQ(GradientsInFlight().device(), 0);
}

TEST(GradientsInFlight, ThoseOfSeveralAreBesideTheirSum) {
  // Added from where they were received; of 16 bits, through a shard of their own.
  EXPECT_EQ(most_without_offload({.shard = 2}, Accumulation::defer), 0);
  EXPECT_EQ(most_without_offload({.shard = 2}, Accumulation::defer, at::kBFloat16), kUnit / 2);
  EXPECT_EQ(most_without_offload({.shard = 2, .replicate = 2}, Accumulation::reduce), 2 * kUnit);
  EXPECT_EQ(most_without_offload({.replicate = 2}, Accumulation::defer), 3 * kUnit + kRoot);
  // Two reductions' shards, before the first of the whole ones is gone.
  EXPECT_EQ(most_without_offload({.shard = 2}, Accumulation::keep), 2 * kUnit);
}

// What arrives of a micro-step lies beside the sum of those before it.
TEST(GradientsInFlight, SeveralMicroStepsMeetOnTheHost) {
  const fsdp::MeshShape mesh{.shard = 2};
  const auto host = [&](Accumulation accumulation) {
    return GradientsInFlight(units_of(mesh), mesh, {}, accumulation).host();
  };
  EXPECT_EQ(host(Accumulation::none), 0);
  EXPECT_EQ(host(Accumulation::keep), 0);
  EXPECT_EQ(host(Accumulation::defer), 3 * kUnit + kRoot);
}

}  // namespace shoal::testing
