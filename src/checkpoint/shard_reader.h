// Reads one shard file of a checkpoint, and believes nothing in it that is not confirmed by the manifest or a checksum.
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>

#include "checkpoint/manifest.h"
#include "checkpoint/region_table.h"
#include "core/file_io.h"
#include "hdf5/file.h"

namespace shoal::checkpoint {

// What HDF5 or the system says of a file that the manifest vouches for is damage of the checkpoint.
template <typename Function>
auto as_damage(const Function& function) {
  try {
    return function();
  } catch (const DescriptorLimitError&) {
    throw;  // says nothing of the file
  } catch (const IoError& error) {
    throw CheckpointError("{}", error.what());
  }
}

// Gets a region's bytes piece by piece, in order: `offset` is the place of `data` in the flattened tensor, in bytes.
using RegionSink = std::function<void(std::int64_t offset, const std::byte* data, std::size_t bytes)>;

// Calls of several threads do not disturb each other, as long as each has a buffer of its own: HDF5 is asked under its
// lock, and the elements are read past it.
class ShardReader {
 public:
  // File `index` of the checkpoint at `directory`. Its size, its header and its table of regions are checked:
  // CheckpointError where one is wrong, or where the file is missing or cannot be read.
  ShardReader(const std::filesystem::path& directory, const Manifest& manifest, std::size_t index);

  const RegionTable& regions() const { return table_; }
  // Reads a region in pieces of at most kChunkBytes. Throws CheckpointError after the last piece where the checksum
  // is wrong: what the sink has seen is void then.
  void read(std::size_t region, const RegionSink& sink) { read(region, sink, buffer_); }
  void read(std::size_t region, const RegionSink& sink, std::vector<std::byte>& buffer) const;
  // The same straight to `into`, which has room for the whole region. Returns the checksum.
  std::uint32_t read_into(std::size_t region, std::byte* into) const;
  // Without a checksum, which covers the whole: `bytes` bytes from byte `offset` of the region.
  void read_part(std::size_t region, std::int64_t offset, std::byte* into, std::size_t bytes) const;
  // Where the region's bytes lie in the file, as HDF5 has it: slow, and strict. CheckpointError where its dataset is
  // not what manifest and table say, and /places. What is read without may still be sound: its checksum tells.
  std::int64_t locate(std::size_t region) const;

 private:
  void check_header(std::size_t index) const;
  void check_checksum(const RegionRow& row, std::uint32_t crc) const;
  std::int64_t bytes_of(const RegionRow& row) const;
  void read_table(const ShardFile& expected);
  void read_places();
  std::int64_t place_of(std::size_t region) const;

  const Manifest* manifest_;
  std::filesystem::path path_;
  InputFile bytes_;
  hdf5::File file_;
  RegionTable table_;
  std::vector<std::int64_t> places_;  // of the regions; empty: HDF5 is asked
  std::vector<std::byte> buffer_;
};

}  // namespace shoal::checkpoint
