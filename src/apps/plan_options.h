// The options of shoal plan: a few of its own, and those of shoal train.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "train/options.h"

namespace shoal::apps {

struct PlanOptions {
  int ranks = 0;
  int ranks_per_node = 0;  // 0: as many as there are, up to 8
  double card_gib = 0;     // 0: nobody asks what fits
  bool json = false;
  train::TrainOptions train;
};

// Nothing where --help was asked for.
std::optional<PlanOptions> parse_plan_options(const std::vector<std::string>& arguments,
                                              const char* const* environment);
std::string plan_help();
std::string plan_description();  // for the driver

}  // namespace shoal::apps
