#include "data/mnist_dataset.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <array>

#include "core/check.h"
#include "core/crc32c.h"
#include "data/idx_file.h"

namespace shoal::data {
namespace {

constexpr std::int64_t kSide = 28, kPixels = kSide * kSide;
constexpr int kClasses = 10;

void check_directory(const std::filesystem::path& directory) {
  std::error_code error;
  const bool is_directory = std::filesystem::is_directory(directory, error);
  SHOAL_CHECK(is_directory, DataError, "{} is not a folder{}; --data must name the folder with the MNIST files",
              directory.string(), error ? " (" + error.message() + ")" : "");
}

std::filesystem::path find_file(const std::filesystem::path& directory, const std::string& name) {
  for (const std::filesystem::path& path : {directory / name, directory / (name + ".gz")}) {
    std::error_code error;
    if (std::filesystem::exists(path, error)) return path;
  }
  throw DataError("{} is missing (with or without .gz); --data must name the folder with the MNIST files",
                  (directory / name).string());
}

std::vector<std::uint8_t> read_images(const std::filesystem::path& path) {
  IdxArray array = read_idx(path, 3);
  SHOAL_CHECK(array.shape[1] == kSide && array.shape[2] == kSide, DataError, "{}: images of {} x {}, expected {} x {}",
              path.string(), array.shape[1], array.shape[2], kSide, kSide);
  SHOAL_CHECK(array.shape[0] > 0, DataError, "{}: no images in the file", path.string());
  return std::move(array.bytes);
}

std::vector<std::uint8_t> read_labels(const std::filesystem::path& path) {
  IdxArray array = read_idx(path, 1);
  const auto bad = std::find_if(array.bytes.begin(), array.bytes.end(), [](std::uint8_t b) { return b >= kClasses; });
  SHOAL_CHECK(bad == array.bytes.end(), DataError, "{}: label {} of sample {} is not in 0 … {}", path.string(), *bad,
              bad - array.bytes.begin(), kClasses - 1);
  return std::move(array.bytes);
}

// ToTensor() and Normalize() of torchvision in their own order of float32 operations, once for each byte.
std::array<float, 256> make_normalisation() {
  std::array<float, 256> table;
  for (int b = 0; b < 256; ++b) table[b] = (static_cast<float>(b) / 255.0f - 0.1307f) / 0.3081f;
  return table;
}

}  // namespace

MnistDataset::MnistDataset(const std::filesystem::path& directory, Split split) {
  check_directory(directory);
  const std::string prefix = split == Split::train ? "train" : "t10k";
  const std::filesystem::path images_path = find_file(directory, prefix + "-images-idx3-ubyte");
  const std::filesystem::path labels_path = find_file(directory, prefix + "-labels-idx1-ubyte");
  images_ = read_images(images_path);
  labels_ = read_labels(labels_path);
  const std::size_t images = images_.size() / kPixels;
  SHOAL_CHECK(images == labels_.size(), DataError, "{} holds {} images, but {} holds {} labels", images_path.string(),
              images, labels_path.string(), labels_.size());
  fingerprint_ = crc32c(labels_.data(), labels_.size(), crc32c(images_.data(), images_.size()));
}

Batch MnistDataset::batch(std::span<const std::int64_t> indices) const {
  static const std::array<float, 256> normalised = make_normalisation();
  const auto n = static_cast<std::int64_t>(indices.size());
  Batch batch{at::empty({n, 1, kSide, kSide}, at::kFloat), at::empty({n}, at::kLong)};
  float* pixel = batch.inputs.mutable_data_ptr<float>();
  std::int64_t* target = batch.targets.mutable_data_ptr<std::int64_t>();
  for (const std::int64_t index : indices) {
    SHOAL_ASSERT(index >= 0 && index < size());
    const std::uint8_t* image = images_.data() + index * kPixels;
    pixel = std::transform(image, image + kPixels, pixel, [](std::uint8_t b) { return normalised[b]; });
    *target++ = labels_[static_cast<std::size_t>(index)];
  }
  return batch;
}

}  // namespace shoal::data
