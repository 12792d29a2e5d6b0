// What Boost.Program_options is told about the options of shoal train.
#pragma once

#include <boost/program_options/options_description.hpp>

#include "train/options.h"

namespace shoal::apps {

// notify() writes the values into `options`, which must outlive the description.
boost::program_options::options_description all_options(train::TrainOptions& options);

}  // namespace shoal::apps
