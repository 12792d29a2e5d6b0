// A run that starts from the weights of a sharded checkpoint, whatever wrote it.
#include <gtest/gtest.h>

#include "checkpoint/catalog.h"
#include "checkpoint/sample_state.h"
#include "checkpoint/shard_reader.h"
#include "checkpoint/weights_samples.h"
#include "core/error.h"

namespace shoal::checkpoint {
namespace {

namespace fs = std::filesystem;
using testing::FileTensor;
using testing::TemporaryDirectory;

std::vector<FileTensor> model_of_sample(int salt) {
  std::vector<FileTensor> tensors;
  for (const testing::SampleTensor& sample : testing::sample_tensors())
    if (sample.name.starts_with("model/"))
      tensors.push_back(testing::file_tensor(sample.name.substr(6), sample.dtype, sample.shape, salt));
  return tensors;
}

std::vector<TensorSpec> specs_of(const std::vector<FileTensor>& tensors) {
  std::vector<TensorSpec> specs;
  for (const FileTensor& tensor : tensors) specs.push_back(tensor.spec);
  return specs;
}

void expect_loaded(const fs::path& source, int salt) {
  const std::vector<FileTensor> expected = model_of_sample(salt);
  for (const int ranks : {1, 3, 5})
    for (const bool rank0_reads : {false, true}) {
      const testing::Loaded loaded = testing::load_on_ranks(source, specs_of(expected), ranks, rank0_reads);
      for (std::size_t i = 0; i < expected.size(); ++i)
        EXPECT_EQ(loaded.tensors[i], expected[i].bytes) << expected[i].spec.name << " on " << ranks;
      EXPECT_EQ(loaded.report.format, "checkpoint");
    }
}

std::string error_of(const fs::path& source, const std::vector<TensorSpec>& model) {
  try {
    testing::load_on_ranks(source, model, 3, false, {});
  } catch (const CheckpointError& error) {
    return error.what();
  }
  ADD_FAILURE() << "nothing was thrown";
  return "";
}

TEST(LoadWeightsOfACheckpoint, OneOfThemOrTheNewestOfADirectory) {
  const TemporaryDirectory directory;
  testing::write_sample(directory.path(), 1, 2, 5);
  const fs::path newest = testing::write_sample(directory.path(), 2, 4, 6);
  expect_loaded(directory.path(), 6);
  expect_loaded(newest, 6);
  expect_loaded(directory.path() / "step_00000001", 5);
}

TEST(LoadWeightsOfACheckpoint, DamageIsNamed) {
  const TemporaryDirectory directory;
  const fs::path checkpoint =
      testing::write_sample(directory.path(), 1, 2, 5, {{"model/w", DType::float32, {1000}, "u"}});
  const std::vector<TensorSpec> model{{"w", DType::float32, {1000}}};
  const Manifest manifest = open_checkpoint(checkpoint);
  const fs::path file = checkpoint / manifest.files[1].name;
  testing::flip_bit(file, ShardReader(checkpoint, manifest, 1).locate(0) + 100);
  EXPECT_NE(error_of(checkpoint, model).find("tensor 'model/w', elements 500 to 999"), std::string::npos);
  fs::remove(file);
  EXPECT_NE(error_of(checkpoint, model).find(file.filename().string()), std::string::npos);
}

}  // namespace
}  // namespace shoal::checkpoint
