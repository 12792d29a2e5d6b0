// Which GPU each rank computes on. CUDA_VISIBLE_DEVICES is never written: what the launcher shows is what there is.
#pragma once

#include <span>
#include <vector>

#include "launch/rank_place.h"

namespace shoal::launch {

// Sets the `gpu` of every rank that sees GPUs; the same on all ranks for the same places. A rank that sees one takes
// it. Where all ranks of a node see the same GPUs and as many as they are, each takes the one of its local number.
// Otherwise no two ranks of a node take the same one, and as many as possible take one next to their own memory; in
// particular where a node has more GPUs than ranks. DeviceError that names host, ranks and the flag of srun where
// ranks that see GPUs are more than these.
//
// Two ranks that each see one GPU, the same one, are told apart from two with one each by check_cards() (comm), which
// knows of containers and virtual machines.
void choose_gpus(std::span<RankPlace> places);

}  // namespace shoal::launch
