#include "fsdp/buffer_plan.h"

#include <algorithm>

#include "fsdp/pack_buffers.h"

namespace shoal::fsdp {
namespace {

using Size = std::int64_t FlatSizes::*;

std::int64_t bytes_of(const UnitSizes& unit, Size size) {
  std::int64_t bytes = 0;
  for (const FlatSizes& flat : unit.flats) bytes += aligned(flat.*size);
  return bytes;
}

// The units but the root that have such buffers, as indices, in their order.
std::vector<std::size_t> users_of(const std::vector<UnitSizes>& units, Size size) {
  std::vector<std::size_t> users;
  for (std::size_t u = 0; u < units.size(); ++u)
    if (!units[u].is_root() && bytes_of(units[u], size) > 0) users.push_back(u);
  return users;
}

// `steps`: the units but the root that have such buffers, in the order of their use.
BufferPlan place_buffers(const std::vector<UnitSizes>& units, const std::vector<std::size_t>& steps, Size size,
                         const BuffersMeet& meet) {
  BufferPlan plan;
  for (const UnitSizes& unit : units) {
    plan.places.emplace_back(unit.flats.size(), 0);
    if (!unit.is_root()) continue;
    for (std::size_t f = 0; f < unit.flats.size(); ++f) {
      plan.places.back()[f] = plan.root;
      plan.root += aligned(unit.flats[f].*size);
    }
  }
  std::vector<PackedBuffer> buffers;
  std::vector<std::int64_t*> places;
  for (std::size_t step = 0; step < steps.size(); ++step) {
    const std::vector<FlatSizes>& flats = units[steps[step]].flats;
    for (std::size_t f = 0; f < flats.size(); ++f) {
      buffers.push_back({.step = step, .bytes = aligned(flats[f].*size)});
      places.push_back(&plan.places[steps[step]][f]);
    }
  }
  plan.shared = pack_buffers(buffers, meet);
  for (std::size_t i = 0; i < buffers.size(); ++i) *places[i] = buffers[i].place;
  return plan;
}

BufferPlan plan_parameters(const std::vector<UnitSizes>& units, std::size_t most_whole) {
  return place_buffers(units, users_of(units, &FlatSizes::whole), &FlatSizes::whole,
                       [most_whole](std::size_t first, std::size_t second) { return second - first < most_whole; });
}

std::int64_t median(std::vector<std::int64_t> bytes) {
  if (bytes.empty()) return 0;
  const auto middle = bytes.begin() + static_cast<std::ptrdiff_t>((bytes.size() - 1) / 2);
  std::nth_element(bytes.begin(), middle, bytes.end());
  return *middle;
}

// Bytes of the units' gradients in the order in which they come.
struct Backward {
  std::vector<std::int64_t> sent, received;

  std::size_t steps() const { return sent.size(); }
  // Of the `count` last steps up to `step`.
  static std::int64_t last(const std::vector<std::int64_t>& bytes, std::size_t step, std::size_t count) {
    std::int64_t sum = 0;
    for (std::size_t i = 0; i < count && i <= step; ++i) sum += bytes[step - i];
    return sum;
  }
  std::int64_t collected_next(std::size_t step) const { return step + 1 < steps() ? sent[step + 1] : 0; }

  // How many reductions may be under way once that of each step is: as many as fit into what is needed anyway, which is
  // a gradient on its way beside the next one that is collected, or all that are of common size.
  std::vector<std::size_t> in_flight() const {
    constexpr auto kMost = static_cast<std::int64_t>(kReductionsInFlight);
    std::int64_t sent_room = (kMost + 1) * median(sent), received_room = kMost * median(received);
    for (std::size_t step = 0; step < steps(); ++step) {
      sent_room = std::max(sent_room, sent[step] + collected_next(step));
      received_room = std::max(received_room, received[step]);
    }
    std::vector<std::size_t> counts(steps(), kReductionsInFlight);
    for (std::size_t step = 0; step < steps(); ++step) {
      std::size_t& count = counts[step];
      while (count > 1 && (last(sent, step, count) + collected_next(step) > sent_room ||
                           last(received, step, count) > received_room))
        --count;
    }
    return counts;
  }
};

}  // namespace

BufferPlans plan_buffers(const std::vector<UnitSizes>& units, const FullyShardOptions& options) {
  BufferPlans plans;
  plans.parameters = plan_parameters(units, most_whole(options));
  std::vector<std::size_t> steps = users_of(units, &FlatSizes::sent);
  std::reverse(steps.begin(), steps.end());
  Backward backward;
  for (const std::size_t u : steps) {
    backward.sent.push_back(bytes_of(units[u], &FlatSizes::sent));
    backward.received.push_back(bytes_of(units[u], &FlatSizes::received));
  }
  const std::vector<std::size_t> in_flight = backward.in_flight();
  plans.in_flight.assign(units.size(), kReductionsInFlight);
  for (std::size_t step = 0; step < steps.size(); ++step) plans.in_flight[steps[step]] = in_flight[step];
  // A gradient is collected while those of the step before are under way.
  plans.sent = place_buffers(units, steps, &FlatSizes::sent, [&](std::size_t first, std::size_t second) {
    return second - first <= in_flight[second - 1];
  });
  plans.received = place_buffers(units, steps, &FlatSizes::received, [&](std::size_t first, std::size_t second) {
    return second - first < in_flight[second];
  });
  return plans;
}

}  // namespace shoal::fsdp
