// The shape of a model, in the words of Hugging Face's configurations.
#pragma once

#include <cstdint>

namespace shoal::models {

// As an option of the user, 0 (a negative dropout) means "not given": the shape behind the model's name counts.
struct ModelOptions {
  std::uint64_t seed = 1;
  std::int64_t layers = 0;
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;           // of grouped-query attention
  std::int64_t hidden_size = 0;        // width of the residual stream
  std::int64_t intermediate_size = 0;  // width inside the MLP
  std::int64_t vocab_size = 0;
  std::int64_t max_positions = 0;  // the longest sequence that the model takes
  double dropout = -1;
  bool untied_head = false;  // an output matrix of its own instead of the embedding's
  double rope_theta = 0;
  double rope_scaling = 0;  // factor of Llama 3.1's rule; 1: none
};

}  // namespace shoal::models
