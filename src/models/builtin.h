// The models that come with Shoal.
#pragma once

#include <vector>

#include "models/registry.h"

namespace shoal::models {

std::vector<ModelEntry> builtin_models();

}  // namespace shoal::models
