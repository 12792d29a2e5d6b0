// What Boost.Program_options is told about the options of shoal train.
#pragma once

#include "apps/command_line.h"
#include "train/options.h"

namespace shoal::apps {

// notify() writes the values into `options`, which must outlive the groups.
OptionGroups option_groups(train::TrainOptions& options);

}  // namespace shoal::apps
