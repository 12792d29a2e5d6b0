// The options of shoal train, from the command line, the environment (SHOAL_BATCH_SIZE for --batch-size), --config
// FILE, and configs of other programs, in this order of precedence.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "train/options.h"

namespace shoal::apps {

// What was given, and what is to be said of it once, by rank 0.
struct GivenOptions {
  train::TrainOptions options;
  std::string translated;  // the line that a config of another program stands for; "" without one
  std::string warning;     // what of it is not done, or otherwise; "": nothing
};

// Nothing where --help was given. `environment` in the form of environ; `ranks`: those of the job. Throws OptionError
// that names the option and where it came from.
std::optional<GivenOptions> parse_train_options(const std::vector<std::string>& arguments,
                                                const char* const* environment, int ranks);

std::string train_help();
std::string train_description();  // for the driver

}  // namespace shoal::apps
