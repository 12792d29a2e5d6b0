// The file that torch.save writes of a state dict, or of values with tensors in them, and that
// torch.load(weights_only=True) reads, with contiguous tensors on the CPU: a ZIP archive of data.pkl and one stored
// entry for each storage.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <variant>
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
  std::string contents;  // where they are known already: nobody need write them
};

// A Python value. A dict keeps its order; an OrderedDict is what a module's state_dict() is.
struct TorchValue {
  struct Tensor {
    std::size_t storage;
  };
  using List = std::vector<TorchValue>;
  struct Tuple {
    std::vector<double> values;
  };
  struct Dict {
    std::vector<std::pair<TorchValue, TorchValue>> items;
    bool ordered_dict = false;
    void add(TorchValue key, TorchValue value);
  };
  using Any = std::variant<std::monostate, bool, std::int64_t, double, std::string, Tensor, Tuple, List, Dict>;
  // Not in the header: inlined, they make GCC 12 warn of members that are never read.
  TorchValue();
  TorchValue(Any any);
  TorchValue(const TorchValue&);
  TorchValue(TorchValue&&) noexcept;
  ~TorchValue();

  Any value;
};

// An OrderedDict of names to tensors, in that order.
TorchValue state_dict_of(const std::vector<TorchTensor>& tensors);

class TorchZip {
 public:
  TorchZip(const TorchValue& value, const std::vector<TorchStorage>& storages);
  TorchZip(const std::vector<TorchTensor>& tensors, const std::vector<TorchStorage>& storages)
      : TorchZip(state_dict_of(tensors), storages) {}

  std::uint64_t total_bytes() const { return layout_.total_bytes(); }
  // Where the storage's bytes go in the file. The caller writes them and reports each piece, in any order.
  std::uint64_t storage_offset(std::size_t storage) const { return layout_.data_offset(first_storage_ + storage); }
  void note_piece(std::size_t storage, std::uint64_t offset, const void* data, std::size_t bytes) {
    layout_.note_piece(first_storage_ + storage, offset, data, bytes);
  }
  void note_checksum(std::size_t storage, std::uint64_t offset, std::uint64_t bytes, std::uint32_t zip_crc) {
    layout_.note_checksum(first_storage_ + storage, offset, bytes, zip_crc);
  }
  // All else that belongs into the file, as (offset, bytes), once every storage is whole.
  std::vector<std::pair<std::uint64_t, std::string>> records() const;

 private:
  std::size_t add_small(const std::string& name, std::string contents);

  ZipLayout layout_;
  std::vector<std::pair<std::uint64_t, std::string>> small_;  // entries known from the start
  std::size_t first_storage_ = 0;
};

}  // namespace shoal::formats
