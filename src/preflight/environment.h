// Variables of the environment that slow a job down, or make it hang.
#pragma once

#include <string>
#include <vector>

#include "launch/variables.h"
#include "preflight/context.h"
#include "preflight/record.h"

namespace shoal::preflight {

// A warning for each variable that hurts, with its value; none where all is well.
std::vector<Record> judge_variables(const launch::Variables& variables);

// Those that settle how data travel (NCCL_*, UCX_*, FI_*).
launch::Variables transport_variables(const launch::Variables& variables);

// Of all ranks, with their hosts: a warning for each rank whose transport variables are not those of most.
std::vector<Record> judge_differences(const std::vector<launch::Variables>& of_ranks,
                                      const std::vector<std::string>& hosts);

// Collective over the job.
CheckResult check_environment(Context& context, const launch::Variables& variables);

}  // namespace shoal::preflight
