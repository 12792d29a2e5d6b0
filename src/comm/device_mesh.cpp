#include "comm/device_mesh.h"

#include "core/check.h"

namespace shoal::comm {

DeviceMesh::DeviceMesh(ProcessGroup& world, ProcessGroup& device_world, int shard_size) : world_(&world) {
  SHOAL_CHECK(shard_size >= 1 && world.size() % shard_size == 0, OptionError,
              "a shard group of {} ranks does not divide {} ranks; change --shard-size or the number of ranks",
              shard_size, world.size());
  const int row = world.rank() / shard_size;
  const int column = world.rank() % shard_size;
  shard_ = device_world.split(row, {.name = "shard", .traffic = Traffic::gather});
  // A communicator of its own: all-gathers prefetched for the next unit must not queue behind reduce-scatters.
  reduce_ = device_world.split(row, {.name = "reduce", .traffic = Traffic::reduce});
  replicate_ = device_world.split(column, {.name = "replicate"});
}

std::vector<std::string> DeviceMesh::describe() const {
  std::vector<std::string> lines;
  for (const ProcessGroup* group : {shard_.get(), reduce_.get(), replicate_.get()})
    lines.push_back(group->name() + ": " + group->describe());
  return lines;
}

}  // namespace shoal::comm
