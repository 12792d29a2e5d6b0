#include "train/data_request.h"

#include <algorithm>

#include "core/check.h"

namespace shoal::train {

std::int64_t sequence_length(const TrainOptions& options) {
  const std::int64_t given = options.data.sequence_length, longest = options.model.shape.max_positions;
  SHOAL_CHECK(longest > 0 || given == 0, OptionError, "--sequence-length: the model takes no sequences");
  SHOAL_CHECK(given <= longest, OptionError,
              "--sequence-length {} is longer than the {} positions of the model: give less, or --max-positions", given,
              longest);
  return given > 0 ? given : std::min(longest, kDefaultLongest);
}

data::DataRequest data_request(const TrainOptions& options) {
  return {.path = options.data.path,
          .test_path = options.data.test_path,
          .sequence_length = sequence_length(options),
          .vocab_size = options.model.shape.vocab_size,
          .token_type = options.data.token_type,
          .tokenizer = options.data.tokenizer,
          .mask_token = options.data.mask_token,
          .mask_probability = options.data.mask_probability,
          .special_tokens = options.data.special_tokens,
          .seed = static_cast<std::uint64_t>(options.run.seed)};
}

}  // namespace shoal::train
