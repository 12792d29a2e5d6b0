// A shard file that the ranks of a group write together: one of them lays it out, each writes its own regions.
#pragma once

#include <filesystem>
#include <string>

#include "checkpoint/shard_output.h"
#include "comm/process_group.h"

namespace shoal::checkpoint {

class SharedShard {
 public:
  // Collective over `group`, which must outlive this. Its rank 0 makes the file in `directory`. Throws IoError on all
  // ranks of the group where it cannot be made.
  SharedShard(comm::ProcessGroup& group, const std::filesystem::path& directory, const ShardHeader& header,
              const StateDict& state);

  // This rank's part, once. IoError where the file that rank 0 made cannot be opened here.
  ShardOutput output(const StateDict& state, SaveObserver observer);

  // Collective over `group`, when all outputs have been finished: `table` is this rank's. Rank 0 writes the table and
  // gets the file's description; on the others it means nothing. IoError on all ranks of the group.
  ShardFile complete(const RegionTable& table);

 private:
  comm::ProcessGroup& group_;
  std::string name_;
  std::filesystem::path path_;
  RegionTable mine_;
  SharedTable shared_;
  ShardPlaces places_;
};

}  // namespace shoal::checkpoint
