// What can be found out before NCCL starts.
#pragma once

#include <vector>

#include "comm/process_group.h"
#include "comm/rank_card.h"

namespace shoal::comm {

// Collective over `control` (host memory), with the number of each rank's own GPU. Every rank's card, checked as
// check_cards() does; a rank that does not come is named with its host. Warns where this rank's GPU is used by others,
// where two copies of NCCL are in the process, and where it is not the version that the build was made with.
std::vector<RankCard> exchange_cards(ProcessGroup& control, int device);

}  // namespace shoal::comm
