// Config files of DeepSpeed. "auto" leaves a value to the command line, as transformers' Trainer does.
#pragma once

#include <filesystem>
#include <string>

#include "configs/translation.h"

namespace shoal::configs {

// `ranks`: those of the job, by which batches are divided. OptionError, in one line that names the key, for what is
// unknown, contradictory, of the wrong type, or cannot be honoured.
Translation translate_deepspeed(const std::filesystem::path& file, int ranks);
// The same for a file that `option` names, added to `out`.
void translate_deepspeed_file(const std::filesystem::path& file, const std::string& option, int ranks,
                              Translation& out);

}  // namespace shoal::configs
