// Rows of integers in files of others: any width, byte order, layout and filter that HDF5 reads.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "hdf5/dataset.h"

namespace shoal::hdf5 {

// Absolute paths of the datasets with one dimension whose elements are integers, in all groups, under each of their
// names. Hdf5Error where the file cannot be read.
std::vector<std::string> integer_datasets(const std::filesystem::path& path);

// A new row of `count` unsigned little-endian integers of 1, 2, 4 or 8 bytes, without its elements (dataset.h).
Placement create_integers(File& file, const std::string& name, std::int64_t element_bytes, std::int64_t count);

class IntegerDataset {
 public:
  // Hdf5Error where there is no such dataset.
  IntegerDataset(const std::filesystem::path& path, const std::string& name);

  std::int64_t size() const { return size_; }
  std::int64_t element_bytes() const { return element_bytes_; }
  bool is_signed() const { return is_signed_; }
  bool is_little_endian() const { return is_little_endian_; }
  // Bytes from the start of the file; -1: no elements, or they do not lie in one piece.
  std::int64_t file_offset() const { return file_offset_; }
  // Elements begin … begin + into.size() - 1, which must exist; those that int64 cannot hold become its largest. Safe
  // to call from several threads, one of which reads at a time.
  void read(std::int64_t begin, std::span<std::int64_t> into) const;

 private:
  File file_;
  std::string subject_;  // for messages
  DatasetHandle handle_;
  std::int64_t size_ = 0, element_bytes_ = 0, file_offset_ = -1;
  bool is_signed_ = false, is_little_endian_ = false;
};

}  // namespace shoal::hdf5
