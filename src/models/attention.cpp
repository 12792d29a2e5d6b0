#include "models/attention.h"

#include <torch/torch.h>

#include "core/check.h"

namespace shoal::models {

void check_attention(const ModelOptions& options) {
  SHOAL_CHECK(options.hidden_size % options.heads == 0, OptionError,
              "--heads {}: must divide the width, --hidden-size {}", options.heads, options.hidden_size);
  SHOAL_CHECK(options.kv_heads == 0 || options.heads % options.kv_heads == 0, OptionError,
              "--kv-heads {}: must divide --heads {}", options.kv_heads, options.heads);
  SHOAL_CHECK(options.dropout >= 0 && options.dropout < 1, OptionError, "--dropout {}: must be in [0, 1)",
              options.dropout);
}

void check_length(const at::Tensor& tokens, std::int64_t max_positions) {
  SHOAL_CHECK(tokens.size(1) <= max_positions, OptionError,
              "--sequence-length {}: the model takes at most {} tokens; give a shorter one, or a larger "
              "--max-positions",
              tokens.size(1), max_positions);
}

at::Tensor split_heads(const at::Tensor& x, std::int64_t heads) {
  return x.view({x.size(0), x.size(1), heads, x.size(2) / heads});
}

}  // namespace shoal::models
