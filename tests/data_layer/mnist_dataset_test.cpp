#include "data/mnist_dataset.h"

#include <gtest/gtest.h>

#include "core/error.h"
#include "data_layer/temporary_folder.h"

namespace shoal::data {
namespace {

constexpr std::uint32_t kImages = 0x00000803, kLabels = 0x00000801;

std::string images(std::uint32_t count, std::uint32_t side = 28) {
  std::string pixels;
  for (std::uint32_t i = 0; i < count * side * side; ++i) pixels.push_back(static_cast<char>(i % 251));
  return idx_bytes(kImages, {count, side, side}, pixels);
}

std::string labels(const std::string& values) {
  return idx_bytes(kLabels, {static_cast<std::uint32_t>(values.size())}, values);
}

void expect_data_error(const TemporaryFolder& folder, Split split, const std::string& part) {
  try {
    const MnistDataset dataset(folder.path(), split);
    ADD_FAILURE() << "read without an error, expected: " << part;
  } catch (const DataError& error) {
    EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
  }
}

TEST(MnistDataset, NormalisesAsTorchvisionDoes) {
  const TemporaryFolder folder;
  folder.write("train-images-idx3-ubyte", images(3));
  folder.write("train-labels-idx1-ubyte.gz", gzip(labels({1, 9, 0})));
  const MnistDataset dataset(folder.path(), Split::train);
  ASSERT_EQ(dataset.size(), 3);
  const std::vector<std::int64_t> indices{2, 0};
  const Batch batch = dataset.batch(indices);
  EXPECT_EQ(batch.inputs.sizes(), (at::IntArrayRef{2, 1, 28, 28}));
  EXPECT_EQ(batch.inputs.scalar_type(), at::kFloat);
  EXPECT_EQ(batch.targets.scalar_type(), at::kLong);
  EXPECT_EQ(batch.targets.const_data_ptr<std::int64_t>()[0], 0);
  EXPECT_EQ(batch.targets.const_data_ptr<std::int64_t>()[1], 1);
  for (int i = 0; i < 2; ++i) {
    for (int p = 0; p < 784; ++p) {
      const auto byte = static_cast<float>((indices[i] * 784 + p) % 251);
      EXPECT_EQ(batch.inputs.const_data_ptr<float>()[i * 784 + p], (byte / 255.0f - 0.1307f) / 0.3081f);
    }
  }
}

TEST(MnistDataset, FingerprintTellsContentsApart) {
  const TemporaryFolder folder;
  folder.write("t10k-images-idx3-ubyte", images(2));
  folder.write("t10k-labels-idx1-ubyte", labels({1, 2}));
  const std::uint32_t first = MnistDataset(folder.path(), Split::test).fingerprint();
  EXPECT_EQ(MnistDataset(folder.path(), Split::test).fingerprint(), first);
  folder.write("t10k-labels-idx1-ubyte", labels({1, 3}));
  EXPECT_NE(MnistDataset(folder.path(), Split::test).fingerprint(), first);
}

TEST(MnistDataset, BadInputIsNamed) {
  const TemporaryFolder folder;
  expect_data_error(folder, Split::train, "train-images-idx3-ubyte is missing (with or without .gz); --data");
  folder.write("train-images-idx3-ubyte", images(3));
  expect_data_error(folder, Split::train, "train-labels-idx1-ubyte is missing");
  folder.write("train-labels-idx1-ubyte", labels({1, 2}));
  expect_data_error(folder, Split::train, "holds 3 images, but");
  folder.write("train-labels-idx1-ubyte", labels({1, 10, 2}));
  expect_data_error(folder, Split::train, "label 10 of sample 1");
  folder.write("train-labels-idx1-ubyte", labels({1, 2, 3}));
  folder.write("train-images-idx3-ubyte", images(3, 32));
  expect_data_error(folder, Split::train, "images of 32 x 32, expected 28 x 28");
  folder.write("train-images-idx3-ubyte", images(0));
  expect_data_error(folder, Split::train, "no images");
}

TEST(MnistDataset, AMissingFolderNamesTheFlag) {
  const TemporaryFolder folder;
  for (const auto& path : {folder.path() / "none", folder.write("file", "x")}) {
    try {
      const MnistDataset dataset(path, Split::train);
      ADD_FAILURE();
    } catch (const DataError& error) {
      EXPECT_NE(std::string(error.what()).find("--data must name"), std::string::npos) << error.what();
    }
  }
}

}  // namespace
}  // namespace shoal::data
