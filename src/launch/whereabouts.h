// Where the ranks of a job are, told in one line whatever their number.
#pragma once

#include <string>
#include <vector>

#include "core/activity.h"

namespace shoal::launch {

// One rank, as a rank of its node sees it.
struct Whereabouts {
  enum class State { runs, stopped, ended, unheard };  // unheard: no rank of its node has said anything

  int rank = 0;
  std::string host;
  State state = State::runs;
  activity::Reading at;  // nothing where the rank is unheard of
};

// "rank 3 on host n2 is stopped (SIGSTOP, or a debugger) in checkpoint save of step 12; ranks 0-2 on hosts n[1-2] are
// in backward of unit 7 'h.6', step 12". One clause for each place, those with the fewest ranks first; places beyond
// the first few are counted. `all` in any order.
std::string describe(std::vector<Whereabouts> all);

// Who is to blame where nothing moves: one that does not run, else the only group that is smaller than any other; its
// first rank. Null: nobody stands out.
const Whereabouts* suspect(const std::vector<Whereabouts>& all);

// "checkpoint save of step 12", "backward of unit 7 'h.6', step 12, micro-step 1" (micro-steps count from 0).
std::string place_text(const activity::Reading& at);

}  // namespace shoal::launch
