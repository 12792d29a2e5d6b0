// A file, or a folder of files, of whole tensors that somebody else has written: weights to start from.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "formats/stored_tensor.h"
#include "shard/state_dict.h"

namespace shoal::checkpoint {

// What one of the readers below makes of a file.
struct WeightsContents {
  std::string format;  // "safetensors", "torch.save" or "HDF5"
  std::vector<TensorSpec> tensors;
  std::vector<formats::OtherEntry> others;  // what is in the file but is no tensor that Shoal can use
  std::vector<std::string> notes;
  // Elements [begin, begin + count) of the flattened tensor, in the file's element type.
  std::function<void(std::size_t tensor, std::int64_t begin, std::int64_t count, std::byte* into)> read;
};

class WeightsFile {
 public:
  // The format is told from the contents, not from the name: HDF5, a file of torch.save, safetensors, the index of a
  // model in several files, or a folder with model.safetensors, pytorch_model.bin (each also in several files, with
  // their .index.json) or model.h5; a directory of torch.distributed.checkpoint, a folder of DeepSpeed; or a sharded
  // checkpoint, or a directory of them, whose newest is meant. Reads headers alone. IoError where it cannot be read;
  // CheckpointError, with path and place, where it is damaged, incomplete or none of these.
  static std::unique_ptr<WeightsFile> open(const std::filesystem::path& path);

  const std::filesystem::path& path() const { return path_; }
  const std::string& format() const { return contents_.format; }
  const std::vector<TensorSpec>& tensors() const { return contents_.tensors; }  // names are distinct
  const std::vector<formats::OtherEntry>& others() const { return contents_.others; }
  const std::vector<std::string>& notes() const { return contents_.notes; }
  // Elements [begin, begin + count) of the flattened tensor, in the file's element type, to `into`. Takes only bounded
  // memory of its own. IoError or CheckpointError where they cannot be read.
  void read(std::size_t tensor, std::int64_t begin, std::int64_t count, void* into) const;

  WeightsFile(std::filesystem::path path, WeightsContents contents);

 private:
  std::filesystem::path path_;
  WeightsContents contents_;
};

// One file of one of the three formats, told from its contents. Never an index: that might name itself.
WeightsContents open_single_file(const std::filesystem::path& path);
// One a format.
WeightsContents open_safetensors(const std::filesystem::path& path);
WeightsContents open_torch_zip(const std::filesystem::path& path);
WeightsContents open_hdf5_weights(const std::filesystem::path& path);
// Its parameters and buffers; regions are compared with their checksums when they are first read.
WeightsContents open_checkpoint_weights(const std::filesystem::path& checkpoint);
// `index`: a "*.index.json" as Hugging Face writes it: {"weight_map": {NAME: FILE, …}}, files beside the index.
WeightsContents open_indexed(const std::filesystem::path& index);

}  // namespace shoal::checkpoint
