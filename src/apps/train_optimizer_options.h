// The groups of options of shoal train that are about the optimizer.
#pragma once

#include <boost/program_options/options_description.hpp>

#include "train/options.h"

namespace shoal::apps {

// Values go to `options`, which must outlive the groups.
boost::program_options::options_description optimizer_options(train::TrainOptions& options);
boost::program_options::options_description loss_scale_options(train::TrainOptions& options);

}  // namespace shoal::apps
