// make_checkpoint DIR STEP RANKS SALT [MEGABYTES]: writes a checkpoint for scripts to look at, the one of
// sample_state.h or, with MEGABYTES, one of large tensors. Prints its path.
#include <cstdio>
#include <cstdlib>
#include <exception>

#include "checkpoint/sample_state.h"

namespace {

std::filesystem::path make(int argc, char** argv) {
  using namespace shoal::testing;
  const std::filesystem::path directory = argv[1];
  const std::int64_t step = std::atoll(argv[2]);
  const int ranks = std::atoi(argv[3]);
  if (argc < 6) return write_sample(directory, step, ranks, std::atoi(argv[4]));
  const std::int64_t elements = std::atoll(argv[5]) * 1'000'000 / 8;
  const std::vector<SampleTensor> tensors{{"model/first", shoal::DType::float32, {elements}, "a"},
                                          {"model/second", shoal::DType::float32, {elements / 10, 10}, "b"}};
  return write_states(directory, step, ranks, [&](int rank) { return blank_state(tensors, rank, ranks); });
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 5) return 2;
  try {
    std::puts(make(argc, argv).c_str());
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "make_checkpoint: %s\n", error.what());
    return 1;
  }
}
