// The parts of a DeepSpeed config, each a function of the block that it is in.
#pragma once

#include "configs/section.h"

namespace shoal::configs {

// train_batch_size = train_micro_batch_size_per_gpu * gradient_accumulation_steps * ranks: of what two say the third
// follows, and all three must agree. OptionError where they do not, or where something is left over.
void translate_batch(Section& root, int ranks);

// fp16, bf16, and the types of what is communicated and summed.
void translate_precision_blocks(Section& root);

// optimizer and scheduler.
void translate_optimizer(Section& root);
void translate_scheduler(Section& root);

// zero_optimization.
void translate_zero_block(Section& root, int ranks);

}  // namespace shoal::configs
