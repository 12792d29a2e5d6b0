// The device's memory for gradients on their way to the host, event by event, as it follows from the engine's rules:
// two reductions under way, two copies that are not waited for, and with replicas one sum of theirs.
#include "fsdp/offload_in_flight.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace shoal::testing {

using fsdp::GradientEvent;
using fsdp::OffloadInFlight;
using Kind = GradientEvent::Kind;
using Moment = std::pair<std::int64_t, std::int64_t>;

namespace {

constexpr std::int64_t kUnit = 100, kRoot = 10;

// The root, and three units of one size.
std::vector<fsdp::UnitSizes> units_of(const fsdp::MeshShape& mesh) {
  std::vector<fsdp::UnitSizes> units;
  for (const char* fqn : {"", "a", "b", "c"}) {
    fsdp::FlatSizes flat{.offload = fsdp::Offload::optimizer};
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
  for (const auto& moment : OffloadInFlight(units_of(mesh), mesh, options).moments(backward()))
    moments.emplace_back(moment.before, moment.during);
  return moments;
}

}  // namespace

TEST(OffloadInFlight, ShardsAreThereFromTheEndOfTheirReduction) {
  const fsdp::MeshShape mesh{.shard = 2};
  // The copies of the last two units wait through the next forward pass.
  const std::vector<Moment> expected{{110, 110}, {110, 110}, {110, 110}, {110, 110}, {110, 110},
                                     {110, 210}, {110, 110}, {110, 210}, {200, 300}};
  EXPECT_EQ(moments_of(mesh, {}), expected);
  EXPECT_EQ(OffloadInFlight(units_of(mesh), mesh, {}).device(), 300);
}

TEST(OffloadInFlight, WithoutShardingGradientsAreWholeFromTheFirst) {
  const fsdp::MeshShape mesh{.replicate = 2};
  const std::vector<Moment> expected{{110, 210}, {210, 210}, {210, 310}, {310, 310}, {310, 410},
                                     {410, 410}, {410, 420}, {420, 420}, {320, 320}};
  EXPECT_EQ(moments_of(mesh, {}), expected);
  EXPECT_EQ(OffloadInFlight(units_of(mesh), mesh, {}).device(), 420);
}

// They are summed over the replicas in the masters' type, beside what came of the shard group.
TEST(OffloadInFlight, SixteenBitsAreReplicatedInThirtyTwo) {
  const fsdp::MeshShape mesh{.shard = 2, .replicate = 2};
  fsdp::FullyShardOptions options;
  options.mixed_precision.reduce_dtype = at::kBFloat16;
  const std::vector<Moment> moments = moments_of(mesh, options);
  EXPECT_EQ(moments.front(), Moment(110, 110));
  // Unit c: 50 that came, 100 that are summed; then unit b the same, and the copy of c, for which one of before goes.
  EXPECT_EQ(moments[5], Moment(110, 260));
  EXPECT_EQ(moments[7], Moment(210, 360));
}

TEST(OffloadInFlight, NothingIsOnItsWayWhereCopiesAreDoneAtOnce) {
  const fsdp::MeshShape mesh{.shard = 2};
  fsdp::FullyShardOptions options;
  options.offload_on_cpu = true;
  EXPECT_EQ(OffloadInFlight(units_of(mesh), mesh, options).device(), kUnit);
}

TEST(OffloadInFlight, NothingIsOffloadedWithoutOffload) {
  const fsdp::MeshShape mesh{.shard = 2};
  auto units = units_of(mesh);
  for (auto& unit : units) unit.flats[0].offload = fsdp::Offload::none;
  const OffloadInFlight none(units, mesh, {});
  EXPECT_EQ(none.device(), 0);
  EXPECT_EQ(none.host(), 0);
  EXPECT_EQ(OffloadInFlight().device(), 0);
}

}  // namespace shoal::testing
