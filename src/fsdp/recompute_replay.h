// Playing a segment's operators again.
#pragma once

#include "fsdp/recompute_segment.h"

namespace shoal::fsdp {

// Puts into each wanted DroppedTensor what the forward pass had saved, and lets go of everything else in `record`.
// Runs the operators as the forward pass did, with the generators put back, on this thread, where they are announced
// to the owners of their storages as far as it intercepts. Generators end where they were. OptionError, as the head of
// recompute_segment.h tells.
void replay(SegmentRecord& record);

}  // namespace shoal::fsdp
