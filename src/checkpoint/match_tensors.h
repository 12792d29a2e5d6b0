// Which tensor of a checkpoint belongs to which tensor of the job.
#pragma once

#include <string>
#include <vector>

#include "checkpoint/manifest.h"
#include "checkpoint/match_rules.h"
#include "core/error.h"
#include "shard/state_dict.h"

namespace shoal::checkpoint {

// No damage: every older checkpoint would say the same, so there is nothing to fall back to.
class ModelMismatch final : public CheckpointError {
 public:
  using CheckpointError::CheckpointError;
};

struct TensorMatch {
  std::vector<ShardedTensor*> tensors;  // the state's, for each of the manifest; null: left out
  std::vector<std::string> notes;       // differences that `rules` allowed
};

// Names, shapes and types agree both ways but for what `rules` allow; else ModelMismatch, which lists what is missing,
// extra, of another shape and of another type. `where` stands in front.
TensorMatch match_tensors(const Manifest& manifest, StateDict& state, const MatchRules& rules,
                          const std::string& where);

}  // namespace shoal::checkpoint
