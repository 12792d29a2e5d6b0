// Reads a checkpoint tensor by tensor, from the first element to the last, whichever files they lie in.
#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <vector>

#include "checkpoint/manifest.h"
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
  struct Piece {
    std::size_t file = 0;
    std::int64_t file_offset = 0, begin = 0, bytes = 0;  // `begin`: in the flattened tensor, in bytes
    std::uint32_t crc = 0;
  };

  void add_file(std::size_t file);
  const InputFile& open(std::size_t file);
  void check_crc(const Piece& piece) const;

  std::filesystem::path path_;
  Manifest manifest_;
  std::vector<std::vector<Piece>> pieces_;  // of each tensor, in the order of the elements
  std::map<std::size_t, InputFile> open_;
  std::size_t tensor_ = 0, piece_ = 0;  // where reading is
  std::int64_t done_ = 0;               // bytes of that piece
  std::uint32_t crc_ = 0;               // of these
};

}  // namespace shoal::checkpoint
