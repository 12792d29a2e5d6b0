// Config files of Hugging Face's accelerate (`accelerate config` writes them): those for FSDP 1 and 2, for its
// DeepSpeed plug-in, and for plain data parallelism.
#pragma once

#include <filesystem>

#include "configs/translation.h"

namespace shoal::configs {

// `ranks`: those of the job, against which numbers of processes and batches are held. OptionError, in one line that
// names the key, for what is unknown, contradictory, of the wrong type, or cannot be honoured.
Translation translate_accelerate(const std::filesystem::path& file, int ranks);

}  // namespace shoal::configs
