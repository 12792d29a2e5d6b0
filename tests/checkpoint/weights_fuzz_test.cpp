// Small files with cut ends and wrong bytes: a load throws one of our errors, or gives the elements that the file has.
#include <gtest/gtest.h>

#include <fstream>
#include <random>

#include "checkpoint/weights_samples.h"
#include "core/error.h"

namespace shoal::checkpoint {
namespace {

namespace fs = std::filesystem;
using testing::file_tensor;
using testing::FileTensor;

std::vector<FileTensor> sample_file() {
  return {file_tensor("h.0.weight", DType::float32, {4, 3}), file_tensor("h.0.bias", DType::bfloat16, {5}),
          file_tensor("count", DType::int64, {}), file_tensor("mask", DType::boolean, {7})};
}

struct Format {
  const char* name;
  std::string (*write)(const std::vector<FileTensor>&);
};

class WeightsFuzz : public ::testing::TestWithParam<Format> {
 protected:
  void SetUp() override {
    tensors_ = sample_file();
    for (const FileTensor& tensor : tensors_) specs_.push_back(tensor.spec);
    good_ = GetParam().write(tensors_);
  }

  // The bytes that differ from what was written; nothing where the load was refused.
  std::optional<std::size_t> load(const std::string& bytes) {
    const fs::path path = directory_.path() / "weights";
    fs::remove(path);  // ext4 flushes a file that is emptied and written again, which takes its time
    std::ofstream(path, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    try {
      const testing::Loaded loaded = testing::load_on_ranks(path, specs_, 1);
      std::size_t different = 0;
      for (std::size_t i = 0; i < tensors_.size(); ++i)
        for (std::size_t k = 0; k < tensors_[i].bytes.size(); ++k)
          different += loaded.tensors[i][k] != tensors_[i].bytes[k];
      return different;
    } catch (const CheckpointError&) {
      return std::nullopt;
    } catch (const IoError&) {
      return std::nullopt;
    }
  }

  testing::TemporaryDirectory directory_;
  std::vector<FileTensor> tensors_;
  std::vector<TensorSpec> specs_;
  std::string good_;
};

TEST_P(WeightsFuzz, CutAnywhere) {
  EXPECT_EQ(load(good_), 0u);
  std::size_t refused = 0, tried = 0;
  for (std::size_t size = 0; size < good_.size(); size += 1 + good_.size() / 400, ++tried) {
    const auto different = load(good_.substr(0, size));
    refused += !different;
    EXPECT_EQ(different.value_or(0), 0u) << "cut to " << size << " of " << good_.size();
  }
  EXPECT_EQ(refused, tried);
}

// No format but HDF5's own structure has checksums over all of it: a wrong byte in the elements is a wrong element, and
// nothing else may come of it.
TEST_P(WeightsFuzz, WrongBytes) {
  std::mt19937 random(7);
  std::size_t refused = 0;
  constexpr std::size_t kTries = 1000;
  for (std::size_t i = 0; i < kTries; ++i) {
    std::string bytes = good_;
    const std::size_t wrong = 1 + random() % 3;
    for (std::size_t k = 0; k < wrong; ++k) bytes[random() % bytes.size()] = static_cast<char>(random());
    const auto different = load(bytes);
    refused += !different;
    EXPECT_LE(different.value_or(0), wrong) << "try " << i;
  }
  EXPECT_GT(refused, kTries / 20);
}

INSTANTIATE_TEST_SUITE_P(, WeightsFuzz,
                         ::testing::Values(Format{"safetensors", testing::safetensors_bytes},
                                           Format{"torch", testing::torch_zip_bytes},
                                           Format{"hdf5", testing::hdf5_bytes}),
                         [](const auto& format) { return std::string(format.param.name); });

}  // namespace
}  // namespace shoal::checkpoint
