// What the system allows a process of this job: open files, locked memory, stack, core files, shared memory.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "preflight/context.h"
#include "preflight/record.h"

namespace shoal::preflight {

struct Limits {
  // As `ulimit` has them, bytes but for the files; none: unlimited.
  std::optional<std::uint64_t> open_files, locked_memory, stack, core, file_size;
  std::uint64_t shared_memory_free = 0;  // bytes of /dev/shm
  bool has_shared_memory = false;
  bool has_infiniband = false;  // a device under /sys/class/infiniband
  int nccl_version = 0;         // as NCCL numbers them, 0: a build without NCCL
  int local_size = 1;           // ranks of this node
};

Limits read_limits(const Context& context);

Record judge_open_files(const Limits& limits);
// Without InfiniBand nothing needs locked memory.
Record judge_locked_memory(const Limits& limits);
// NCCL below 2.28 gives its threads stacks of 2 MiB where the limit is "unlimited", and crashes.
Record judge_stack(const Limits& limits);
Record judge_core_files(const Limits& limits);
// MPI and NCCL put the messages between ranks of a node there.
Record judge_shared_memory(const Limits& limits);
// `bytes`: what one rank will write to one file.
Record judge_file_size(const Limits& limits, std::uint64_t bytes);

// Collective over the job. A check for each of the above; 0: the size of files is not known.
std::vector<CheckResult> check_limits(Context& context, std::uint64_t file_bytes);

}  // namespace shoal::preflight
