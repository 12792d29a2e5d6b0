// Notices that a job does not get on, or that a rank of this node is gone, and finds out who is where.
//
// On each node one rank looks at the slots of all: the first whose watch is alive. Where a slot has not changed for the
// time given, it strikes: it makes a file in the run directory, which its colleagues on the other nodes look for once a
// second; each writes what the ranks of its node do, and the first to have struck tells all of it in one message and
// ends the job. No call of MPI and nothing from the ranks looked at is needed.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "core/activity.h"
#include "core/process_state.h"
#include "core/watch.h"
#include "launch/whereabouts.h"

namespace shoal::launch {

struct HangWatchOptions {
  std::chrono::milliseconds timeout{0};  // 0: hangs are not looked for
  std::filesystem::path where;           // folder of the run directory; empty: this node's ranks alone are known
  int attempt = 0;
  std::filesystem::path first_failure;  // of the attempt; where one appears and its rank's launcher does not end the
                                        // job, the other nodes end with its code. Empty: not looked for
  std::vector<std::string> hosts;       // of each rank
  std::vector<int> nodes;               // of each rank: the lowest rank of its node
  // For tests.
  std::chrono::milliseconds patience{3000};      // for a launcher that ends the job with the dead rank's own code
  std::chrono::milliseconds last_words{10'000};  // for this process to end, once it says that it will
  std::chrono::milliseconds answers{5000};       // for the other nodes to say where they are
};

class HangWatch final : public Watched {
 public:
  // `slots` are those of this node, `own` this process's; they outlive this.
  HangWatch(std::vector<activity::Slot*> slots, std::size_t own, HangWatchOptions options);

  // Beats, looks, writes: see above. A line for an end of the job that this rank is to tell of; an empty one where
  // another does. exit_code() is then the code to end with. Dead ranks are recorded as failures here.
  std::optional<std::string> trouble() override;
  int exit_code() const { return exit_code_; }

 private:
  using Clock = std::chrono::steady_clock;
  struct Neighbour {
    const activity::Slot* slot;
    std::uint64_t changes = 0;
    Clock::duration unchanged{};            // without the time that this process itself was stopped
    std::optional<Clock::time_point> gone;  // when it was found dead or leaving
  };

  std::optional<std::string> end(int code, std::string line);
  std::optional<std::string> look_at_own_end();
  std::optional<std::string> look_at_neighbours();
  std::optional<std::string> look_at_strike();
  void tell_dead(const activity::Slot& slot) const;
  void count_unchanged();
  bool speaks() const;
  bool overdue() const;
  bool strike_seen();
  std::optional<std::string> leave_as_the_first();
  void strike();
  void report(bool struck);
  std::vector<Whereabouts> node_whereabouts() const;
  std::vector<Whereabouts> all_whereabouts(bool& complete) const;
  std::string verdict(const std::vector<Whereabouts>& all) const;

  std::vector<Neighbour> neighbours_;
  std::size_t own_;
  HangWatchOptions options_;
  int exit_code_ = 0;
  Clock::time_point last_look_, last_poll_, last_report_;
  std::optional<Clock::time_point> leaving_since_, struck_at_, failure_seen_;
  bool tells_ = false;
};

}  // namespace shoal::launch
