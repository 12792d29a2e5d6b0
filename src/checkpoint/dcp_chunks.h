// Elements of tensors that torch.distributed.checkpoint has written in chunks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>

#include "checkpoint/open_files.h"
#include "formats/dcp_metadata.h"
#include "formats/stored_tensor.h"
#include "formats/torch_archive.h"

namespace shoal::checkpoint {

class DcpChunks {
 public:
  explicit DcpChunks(std::filesystem::path directory) : files_(std::move(directory)) {}

  // Elements [begin, begin + count) of the flattened tensor. CheckpointError where a chunk is no tensor of the size and
  // type that the metadata promise, or leaves its place.
  void read(const formats::DcpEntry& tensor, std::int64_t begin, std::int64_t count, std::byte* into);

  // The value of a tensor of one element, or of a number or truth value that was saved; nothing for another object.
  std::optional<double> number(const formats::DcpEntry& entry);

 private:
  struct OpenChunk {
    const formats::DcpChunk* chunk = nullptr;
    std::shared_ptr<InputFile> file;
    formats::StoredTensor tensor;
  };
  std::unique_ptr<formats::TorchArchive> archive(const formats::DcpPlace& place);
  const OpenChunk& open(const formats::DcpEntry& tensor, const formats::DcpChunk& chunk);
  void read_box(const formats::DcpEntry& tensor, const formats::DcpChunk& chunk, std::int64_t begin, std::int64_t count,
                std::byte* into);

  OpenFiles files_;
  OpenChunk open_;  // the one that was read last
};

}  // namespace shoal::checkpoint
