// The file that torch.save writes of a state dict and that torch.load(weights_only=True) reads as an OrderedDict of
// contiguous tensors on the CPU: a ZIP archive of data.pkl and one stored entry for each storage.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "formats/zip_layout.h"
#include "shard/dtype.h"

namespace shoal::formats {

struct TorchTensor {
  std::string name;
  std::size_t storage = 0;  // index into the storages; tensors of one storage are tied
};

// The elements of one tensor, row-major, little-endian.
struct TorchStorage {
  DType dtype = DType::float32;
  std::vector<std::int64_t> shape;
};

class TorchZip {
 public:
  // `tensors`: in the order of the dictionary.
  TorchZip(const std::vector<TorchTensor>& tensors, const std::vector<TorchStorage>& storages);

  std::uint64_t total_bytes() const { return layout_.total_bytes(); }
  // Where the storage's bytes go in the file. The caller writes them and reports each piece, in any order.
  std::uint64_t storage_offset(std::size_t storage) const { return layout_.data_offset(first_storage_ + storage); }
  void note_piece(std::size_t storage, std::uint64_t offset, const void* data, std::size_t bytes) {
    layout_.note_piece(first_storage_ + storage, offset, data, bytes);
  }
  // All else that belongs into the file, as (offset, bytes), once every storage is whole.
  std::vector<std::pair<std::uint64_t, std::string>> records() const;

 private:
  void add_small(const std::string& name, std::string contents);

  ZipLayout layout_;
  std::vector<std::pair<std::uint64_t, std::string>> small_;  // entries known from the start
  std::size_t first_storage_ = 0;
};

}  // namespace shoal::formats
