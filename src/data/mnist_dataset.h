// MNIST and its relatives with the same files (Fashion-MNIST, KMNIST): images of 28 × 28 grey bytes, labels 0 … 9.
#pragma once

#include <filesystem>
#include <vector>

#include "data/dataset.h"

namespace shoal::data {

class MnistDataset final : public Dataset {
 public:
  // Reads train-images-idx3-ubyte and train-labels-idx1-ubyte (t10k-… for the test split) of `directory`, plain or
  // with .gz behind the name; the plain file is taken where both are there. Throws DataError that names the file.
  MnistDataset(const std::filesystem::path& directory, Split split);

  std::int64_t size() const override { return static_cast<std::int64_t>(labels_.size()); }
  // inputs: float32 [n, 1, 28, 28], (byte / 255 - 0.1307) / 0.3081 as torchvision computes it; targets: int64 [n].
  Batch batch(std::span<const std::int64_t> indices) const override;
  std::uint32_t fingerprint() const override { return fingerprint_; }

 private:
  std::vector<std::uint8_t> images_, labels_;
  std::uint32_t fingerprint_ = 0;
};

}  // namespace shoal::data
