// Reads the ".metadata" of torch.distributed.checkpoint (PyTorch 2.1 and later): a pickle of its dataclasses that says
// which tensors there are, in which chunks they were cut, and where in which file each chunk lies.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "shard/dtype.h"

namespace shoal::formats {

// Bytes of a file of the directory: one object as torch.save writes it.
struct DcpPlace {
  std::string file;
  std::uint64_t offset = 0, bytes = 0;
};

struct DcpChunk {
  std::vector<std::int64_t> offsets, sizes;  // a box of the tensor
  DcpPlace place;
};

struct DcpEntry {
  std::string key;  // as the file has it: "model.layer.weight"
  std::vector<std::string>
      path;                    // of the nested dictionaries that were saved: "model", "layer.weight"; numbers as text
  std::string dtype;           // as Python writes it: "torch.float32"
  std::optional<DType> known;  // where Shoal has it too
  std::vector<std::int64_t> shape;
  // Of a tensor, of which each element is in one chunk: in the order of their offsets. None: it has no elements.
  std::vector<DcpChunk> chunks;
  bool tensor = true;  // false: any object, at `place`
  DcpPlace place;
};

// `bytes` of the file `where`. CheckpointError, with `where` and the entry's name, for anything that is damaged, for
// chunks that overlap or leave gaps, and for what Shoal cannot read: a storage with transforms, names that lead out of
// the directory, objects of Python beyond those of the format.
std::vector<DcpEntry> read_dcp_metadata(std::string_view bytes, const std::string& where);

}  // namespace shoal::formats
