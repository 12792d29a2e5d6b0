#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "comm/nccl_calls.h"
#include "comm/nccl_process_group.h"
#include "core/timer.h"
#include "preflight/gpu_bus.h"

namespace shoal::preflight {
namespace {

constexpr std::int64_t kBytes = 128 << 20, kCount = kBytes / 4;
constexpr int kWarmUps = 3, kMostTurns = 20;
constexpr double kSeconds = 1;

// Unsigned, so that the sum over very many ranks wraps around here as it does there.
std::uint32_t term(std::int64_t element, int factor) {
  return static_cast<std::uint32_t>(element % 1000) * static_cast<std::uint32_t>(factor);
}

// Whether each element of `memory` becomes the sum of what the ranks put there.
bool sums_right(comm::ProcessGroup& group, void* memory) {
  std::vector<std::uint32_t> values(kCount);
  for (std::int64_t i = 0; i < kCount; ++i) values[static_cast<std::size_t>(i)] = term(i, group.rank() + 1);
  SHOAL_CUDA_CALL(cudaMemcpy(memory, values.data(), kBytes, cudaMemcpyHostToDevice));
  group.all_reduce(memory, kCount, DType::int32, comm::ReduceOp::sum)->wait();
  group.barrier();
  SHOAL_CUDA_CALL(cudaMemcpy(values.data(), memory, kBytes, cudaMemcpyDeviceToHost));
  const int factor = group.size() * (group.size() + 1) / 2;
  for (std::int64_t i = 0; i < kCount; ++i)
    if (values[static_cast<std::size_t>(i)] != term(i, factor)) return false;
  return true;
}

// Seconds an all-reduce, by the clock of the host: all queued at once, then waited for.
double time_turns(comm::ProcessGroup& group, void* memory, int turns) {
  group.barrier();
  const Timer timer;
  for (int i = 0; i < turns; ++i) group.all_reduce(memory, kCount, DType::int32, comm::ReduceOp::sum)->wait();
  group.barrier();
  return timer.seconds() / turns;
}

double measure(comm::ProcessGroup& control, comm::ProcessGroup& group, bool& wrong_sum) {
  const std::shared_ptr<void> memory = group.allocate(kBytes);
  wrong_sum = !sums_right(group, memory.get()) || wrong_sum;
  // The same number of turns on all ranks.
  const double one = comm::all_reduce(control, time_turns(group, memory.get(), kWarmUps), comm::ReduceOp::max);
  const int turns = std::clamp(static_cast<int>(kSeconds / one), 2, kMostTurns);
  return all_reduce_bus_bandwidth(static_cast<double>(kBytes), time_turns(group, memory.get(), turns), group.size());
}

}  // namespace

int nccl_version() {
  int version = 0;
  return ncclGetVersion(&version) == ncclSuccess ? version : 0;
}

int visible_gpus() {
  int count = 0;
  return cudaGetDeviceCount(&count) == cudaSuccess ? count : 0;
}

void take_gpu(int device) {
  SHOAL_CUDA_CALL(cudaSetDevice(device));
  SHOAL_CUDA_CALL(cudaFree(nullptr));
}

BusSpeed measure_all_reduce(Context& context, int device) {
  const auto control = context.world().split(0);
  const auto node_control = context.world().split(context.node_of(context.rank()));
  const auto job = comm::make_nccl_group(*control, device, [] { return nullptr; });
  BusSpeed speed;
  if (job->size() > 1) speed.job = measure(*control, *job, speed.wrong_sum);
  const auto node = job->split(context.node_of(context.rank()), {.name = "node"});
  if (node->size() > 1) speed.node = measure(*node_control, *node, speed.wrong_sum);
  return speed;
}

}  // namespace shoal::preflight
