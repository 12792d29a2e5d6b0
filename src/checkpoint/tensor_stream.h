// Reads a checkpoint tensor by tensor, from the first element to the last, whichever files they lie in.
#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <vector>

#include "checkpoint/manifest.h"
#include "checkpoint/placed_regions.h"
#include "core/file_io.h"

namespace shoal::checkpoint {

class TensorStream {
 public:
  // Opens a complete checkpoint and looks once into each of its files. Memory is that of the manifest and the tables of
  // regions. CheckpointError where something is wrong, or where the files leave a hole.
  explicit TensorStream(const std::filesystem::path& checkpoint);

  const Manifest& manifest() const { return manifest_; }
  // Goes to the first element of a tensor.
  void begin(std::size_t tensor);
  // The next bytes of it, which must exist. CheckpointError after the last piece of a region whose checksum is wrong:
  // what was read of it is void then.
  void read(std::byte* into, std::size_t bytes);

 private:
  const InputFile& open(std::size_t file);

  std::filesystem::path path_;
  Manifest manifest_;
  std::vector<std::vector<PlacedRegion>> pieces_;  // of each tensor, in the order of the elements
  std::map<std::size_t, InputFile> open_;
  std::size_t tensor_ = 0, piece_ = 0;  // where reading is
  std::int64_t done_ = 0;               // bytes of that piece
  std::uint32_t crc_ = 0;               // of these
};

}  // namespace shoal::checkpoint
