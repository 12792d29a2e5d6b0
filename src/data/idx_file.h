// The idx format of MNIST: big-endian magic 0x0000TTNN (type, number of dimensions), NN 32-bit sizes, the elements.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

namespace shoal::data {

struct IdxArray {
  std::vector<std::int64_t> shape;
  std::vector<std::uint8_t> bytes;  // row-major
};

// Reads an idx file of unsigned bytes with `dimensions` dimensions, plain or compressed by gzip (told by contents, not
// by name). Every size in the header is checked against the length of the file before memory is taken.
// Throws DataError that names the file and what is wrong with it.
IdxArray read_idx(const std::filesystem::path& path, int dimensions);

}  // namespace shoal::data
