#include "comm/device_mesh.h"

#include "core/check.h"

namespace shoal::comm {

DeviceMesh::DeviceMesh(ProcessGroup& world, ProcessGroup& device_world, int shard_size, int regather_size)
    : world_(&world) {
  SHOAL_CHECK(shard_size >= 1 && world.size() % shard_size == 0, OptionError,
              "a shard group of {} ranks does not divide {} ranks; change --shard-size or the number of ranks",
              shard_size, world.size());
  SHOAL_CHECK(
      regather_size == 0 || (regather_size > 1 && regather_size < shard_size && shard_size % regather_size == 0),
      OptionError,
      "--reshard-after-forward {} does not divide a shard group of {} ranks: it is a divisor of it, neither 1 "
      "(that is --strategy shard_grad_op) nor the group itself (full_shard)",
      regather_size, shard_size);
  const int row = world.rank() / shard_size;
  const int column = world.rank() % shard_size;
  shard_ = device_world.split(row, {.name = "shard", .traffic = Traffic::gather});
  // A communicator of its own: all-gathers prefetched for the next unit must not queue behind reduce-scatters.
  reduce_ = device_world.split(row, {.name = "reduce", .traffic = Traffic::reduce});
  replicate_ = device_world.split(column, {.name = "replicate"});
  if (regather_size > 0)
    regather_ = device_world.split(world.rank() / regather_size, {.name = "regather", .traffic = Traffic::gather});
}

std::vector<ProcessGroup*> DeviceMesh::device_groups() const {
  std::vector<ProcessGroup*> groups{shard_.get(), reduce_.get(), replicate_.get()};
  if (regather_) groups.push_back(regather_.get());
  return groups;
}

std::vector<std::string> DeviceMesh::describe() const {
  std::vector<std::string> lines;
  for (const ProcessGroup* group : device_groups()) lines.push_back(group->name() + ": " + group->describe());
  return lines;
}

}  // namespace shoal::comm
