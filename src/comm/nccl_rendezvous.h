// How the ranks of a job come together in one communicator.
#pragma once

#include <memory>
#include <vector>

#include "comm/nccl_communicator.h"
#include "comm/process_group.h"
#include "comm/rank_card.h"

namespace shoal::comm {

// Collective over `control` (host memory), on the current device. One root, or one for each `ranks_per_root` ranks
// where there are more, gives the others the address at which NCCL brings them together. The result is nonblocking.
// CommunicationError where it is not made within the control group's time limit, which names the ranks that are not
// there with their hosts.
std::unique_ptr<NcclCommunicator> meet(ProcessGroup& control, const std::vector<RankCard>& cards, int ranks_per_root);

}  // namespace shoal::comm
