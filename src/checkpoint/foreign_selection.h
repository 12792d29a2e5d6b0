// What of a foreign state an import takes, and what it is called afterwards.
#pragma once

#include <string>
#include <vector>

#include "checkpoint/foreign_state.h"
#include "checkpoint/rename_rules.h"

namespace shoal::checkpoint {

// `select`: globs on parameters' names as the source has them; empty: all. What the optimizer keeps of a parameter goes
// with it and is renamed as it is; of tied names those stay that are wanted. OptionError where a glob takes nothing or
// two parameters would have one name.
void choose_tensors(ForeignState& state, const std::vector<std::string>& select, const RenameRules& rename);

}  // namespace shoal::checkpoint
