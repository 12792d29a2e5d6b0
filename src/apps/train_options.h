// The options of shoal train, from the command line, the environment (SHOAL_BATCH_SIZE for --batch-size) and --config
// FILE, in this order of precedence.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "train/options.h"

namespace shoal::apps {

// Nothing where --help was given. `environment` in the form of environ. Throws OptionError that names the option and
// where it came from.
std::optional<train::TrainOptions> parse_train_options(const std::vector<std::string>& arguments,
                                                       const char* const* environment);

std::string train_help();

}  // namespace shoal::apps
