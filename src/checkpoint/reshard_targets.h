// The shard files of a checkpoint that is being made out of another one: each piece of a tensor goes to the file and
// the place where it belongs, in whatever order the pieces come.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "checkpoint/shard_layout.h"

namespace shoal::checkpoint {

// The same tensors, cut as a job of `ranks` ranks with --strategy full_shard cuts them.
std::vector<SavedTensor> cut_for_ranks(std::vector<SavedTensor> tensors, int ranks);

class ReshardTargets {
 public:
  // Makes the files of `ranks` ranks in `directory`, as `tensors` are cut. All stay open: IoError that names the limit
  // where the process may not have as many.
  ReshardTargets(const std::filesystem::path& directory, const std::string& id, std::int64_t step,
                 const std::vector<SavedTensor>& tensors, int ranks);

  // Bytes of the flattened tensor, from byte `offset` of it on. Every byte once; tensors and pieces in any order.
  void write(std::size_t tensor, std::int64_t offset, const std::byte* data, std::size_t bytes);
  // Writes the tables and syncs, once every byte is written.
  std::vector<ShardFile> finish();

 private:
  struct File {
    std::string name;
    LaidOutShard shard;
    RegionTable table;
  };
  struct Target {
    std::size_t rank = 0, region = 0;
    std::int64_t begin = 0, end = 0;  // bytes of the flattened tensor
    std::int64_t written = 0;
  };

  void write_piece(Target& target, std::int64_t offset, const std::byte* data, std::size_t bytes);

  std::vector<File> files_;                     // of rank 0, 1, …
  std::vector<std::vector<Target>> by_tensor_;  // in the order of the elements
};

}  // namespace shoal::checkpoint
