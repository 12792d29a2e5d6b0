// Weights of a file whose names differ from the model's, as far as the user allows it.
#include <gtest/gtest.h>

#include <cstring>

#include "checkpoint/weights_samples.h"
#include "comm/fake_process_group.h"
#include "core/file_io.h"

namespace shoal::checkpoint {
namespace {

using testing::file_tensor;
using testing::FileTensor;
using testing::TemporaryDirectory;

TEST(LoadWeights, RulesRenameLeaveOutAndKeep) {
  const TemporaryDirectory directory;
  write_text_file(directory.path() / "w", testing::safetensors_bytes({file_tensor("old.w", DType::float16, {5, 3}),
                                                                      file_tensor("extra", DType::float32, {2})}));
  LoadWeightsOptions options;
  options.rules = MatchRules::parse({"kept"}, {"extra"}, {"old.*=new.*"});
  const FileTensor expected = file_tensor("old.w", DType::float16, {5, 3});
  for (const bool rank0_reads : {false, true}) {
    options.rank0_reads = rank0_reads;
    comm::FakeWorld(3).run([&](comm::ProcessGroup& world) {
      const std::vector<testing::SampleTensor> model{{"model/new.w", DType::float16, {5, 3}, "u"},
                                                     {"model/kept", DType::float32, {4}, "u"}};
      StateDict state = testing::blank_state(model, world.rank(), 3);
      const StateDict blank = testing::blank_state(model, world.rank(), 3);
      const LoadWeightsReport report = load_weights(world, directory.path() / "w", state, options);
      const Region &loaded = state.tensors[0].region, &kept = state.tensors[1].region;
      EXPECT_EQ(std::string(reinterpret_cast<char*>(loaded.data), static_cast<std::size_t>(loaded.count) * 2),
                expected.bytes.substr(static_cast<std::size_t>(loaded.begin) * 2,
                                      static_cast<std::size_t>(loaded.count) * 2));
      EXPECT_TRUE(testing::same_region(kept, blank.tensors[1].region, 4));
      EXPECT_EQ(report.notes.size(), 2u);
    });
  }
}

}  // namespace
}  // namespace shoal::checkpoint
