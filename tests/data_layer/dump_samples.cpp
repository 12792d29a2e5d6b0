// Prints what a model would be trained on, for comparison with other programs:
//   dump_samples causal|masked PATH SEQUENCE_LENGTH VOCAB_SIZE EPOCH
// One line a sample: its inputs, then its targets.
#include <cstdio>
#include <string>

#include "core/error.h"
#include "data/masked_dataset.h"
#include "data/token_dataset.h"

namespace {

void print(const at::Tensor& tensor) {
  const std::int64_t* values = tensor.const_data_ptr<std::int64_t>();
  for (std::int64_t i = 0; i < tensor.numel(); ++i) std::printf("%lld ", static_cast<long long>(values[i]));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 6) return 2;
  const bool is_masked = std::string(argv[1]) == "masked";
  const shoal::data::DataRequest request{
      .path = argv[2], .sequence_length = std::stoll(argv[3]), .vocab_size = std::stoll(argv[4]), .seed = 3};
  try {
    const auto open = is_masked ? shoal::data::open_masked_tokens : shoal::data::open_tokens;
    const auto dataset = open(request, shoal::data::Split::train);
    for (std::int64_t i = 0; i < dataset->size(); ++i) {
      const shoal::data::Batch batch = dataset->epoch_batch(std::stoll(argv[5]), {&i, 1});
      print(batch.inputs);
      print(batch.targets);
      std::printf("\n");
    }
    return 0;
  } catch (const shoal::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return static_cast<int>(error.exit_code());
  }
}
