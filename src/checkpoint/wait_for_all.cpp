#include "checkpoint/wait_for_all.h"

#include <algorithm>
#include <optional>

#include "checkpoint/group_activity.h"
#include "comm/late_ranks.h"
#include "core/activity.h"
#include "core/check.h"
#include "core/host_name.h"
#include "core/timer.h"

namespace shoal::checkpoint {
namespace {

using std::chrono::milliseconds;

// How long a rank's work has not moved, and which rank's, as one number of which the largest is the worst.
constexpr std::int64_t kMostRanks = std::int64_t{1} << 24;
std::int64_t pack(std::int64_t idle, int rank) { return idle * kMostRanks + (kMostRanks - 1 - rank); }
std::int64_t idle_of(std::int64_t packed) { return packed / kMostRanks; }
int rank_of(std::int64_t packed) { return static_cast<int>(kMostRanks - 1 - packed % kMostRanks); }

[[noreturn]] void fail(comm::ProcessGroup& world, int late, std::string_view phase) {
  const std::string host = comm::broadcast_bytes(world, host_name(), late);
  throw comm::LateRanksError(
      fmt::format("rank {} on host {} has got no further for {:g} s in {}: its disk or file system does not answer; "
                  "--collective-timeout sets the limit",
                  late, host, static_cast<double>(world.timeout().count()) / 1e3, phase),
      {late});
}

}  // namespace

void wait_for_all(comm::ProcessGroup& world, std::string_view phase, const BackgroundWork& work) {
  const GroupActivity activity(world, fmt::format("{}: {}", world.activity(), phase));
  const milliseconds interval = std::clamp<milliseconds>(world.timeout() / 8, milliseconds(1), milliseconds(1000));
  std::optional<activity::During> waiting;
  std::int64_t seen = work.moves();
  Timer since_moved;
  for (;;) {
    const bool over = work.over_within(interval);
    if (const std::int64_t moves = work.moves(); moves != seen) {
      seen = moves;
      since_moved.restart();
      activity::progressed();
    }
    const auto idle = static_cast<std::int64_t>(since_moved.seconds() * 1e3);
    world.barrier();  // which names a rank that does not come
    // One number that all ranks have alike decides for all of them.
    const std::int64_t worst = comm::all_reduce(world, over ? -1 : pack(idle, world.rank()), comm::ReduceOp::max);
    if (worst < 0) return;
    if (idle_of(worst) > world.timeout().count()) fail(world, rank_of(worst), world.activity());
    if (over && !waiting) waiting.emplace(activity::Operation::waiting);
  }
}

}  // namespace shoal::checkpoint
