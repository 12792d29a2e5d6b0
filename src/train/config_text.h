// The options of a run in the form of --config.
#pragma once

#include <string>

#include "train/options.h"

namespace shoal::train {

// Lines of "name = value": all that resolved() tells and that can be given, so that `shoal train --config` with them on
// the same number of ranks has the same options. What follows from other options is left out, or a comment.
std::string config_text(const TrainOptions& options);

}  // namespace shoal::train
