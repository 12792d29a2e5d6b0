// Which tensor of a foreign file belongs to which tensor of the model. Strict both ways, but for the differences that
// files of Hugging Face and PyTorch are known to have.
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/match_rules.h"
#include "formats/stored_tensor.h"
#include "shard/state_dict.h"

namespace shoal::checkpoint {

inline constexpr std::size_t kNoSource = static_cast<std::size_t>(-1);  // it keeps its values

struct WeightsMatch {
  std::vector<std::size_t> source;  // of each tensor of the state: the tensor of the file, or kNoSource
  // {tensor of the state, tensor of the file}: the model has one tensor for two of the file, its source and this one.
  // They have the same shape and type; that they are equal is for the reader to check.
  std::vector<std::pair<std::size_t, std::size_t>> twins;
  std::vector<std::string> notes;  // each known difference that was found
};

// `state`: tensors "model/…" alone. Understood are
//   - a prefix ("transformer.", "model.", "module.") that names of the file have and the model's lack, or the reverse;
//   - "gamma" and "beta" for "weight" and "bias";
//   - buffers of old files that are no state: "*.attn.bias", "*.masked_bias", "*.inv_freq", "*.position_ids";
//   - tied tensors, which a file may have under each of their names: as twins;
//   - a file of a tied model for one with an untied head, which takes the embedding's values;
//   - what `rules` allow: `file` has been renamed by them already.
// CheckpointError that starts with `where` and lists what is missing, superfluous, or of another shape or type, or says
// that two prefixes would do.
WeightsMatch match_weights(const std::vector<TensorSpec>& file, const std::vector<formats::OtherEntry>& others,
                           const StateDict& state, const std::string& where, const MatchRules& rules = {});

}  // namespace shoal::checkpoint
