#include "fsdp/trace_file.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "core/check.h"
#include "core/host_name.h"
#include "core/trace_json.h"
#include "fsdp/fully_shard.h"
#include "fsdp/runtime.h"
#include "fsdp/unit_trace.h"

namespace shoal::fsdp {
namespace {

constexpr int kMostRanks = 64;  // viewers show no more, and a rank's events are a megabyte or so

// What is to be added to this rank's clock to give rank 0's. A rank that is late at one barrier is on time at most of
// the others. Collective over `world`.
double shift_to_first_rank(comm::ProcessGroup& world, const Trace& trace) {
  constexpr std::size_t kBarriers = 9;
  std::array<double, kBarriers> mine{};
  for (double& time : mine) {
    world.barrier();
    time = trace.now();
  }
  std::array<double, kBarriers> shifts = mine;
  world.broadcast(shifts.data(), kBarriers, DType::float64, 0)->wait();
  for (std::size_t i = 0; i < kBarriers; ++i) shifts[i] -= mine[i];
  std::nth_element(shifts.begin(), shifts.begin() + kBarriers / 2, shifts.end());
  return shifts[kBarriers / 2];
}

// Empty, or what went wrong. The file that was there stays until the new one is whole.
std::string write_file(const std::string& path, const std::string& text) {
  const std::string partial = path + ".partial";
  std::ofstream file(partial, std::ios::binary);
  file << text;
  file.close();
  if (!file) return std::strerror(errno);
  std::error_code error;
  std::filesystem::rename(partial, path, error);
  return error ? error.message() : "";
}

}  // namespace

std::vector<StepTimes> write_trace(FullyShardedModule& module, const std::string& path) {
  Runtime& runtime = module.runtime();
  Trace* const trace = runtime.options().trace;
  SHOAL_CHECK(trace != nullptr, InternalError, "write_trace() of a module that is not traced");
  trace->end_step();
  runtime.unit_trace()->finish();
  comm::ProcessGroup& world = runtime.mesh().world();
  const std::vector<Trace::Span> spans = trace->spans();
  const double shift = shift_to_first_rank(world, *trace);
  const std::string process = fmt::format("rank {} ({})", world.rank(), host_name());
  const auto events = comm::all_gather_bytes(
      world, world.rank() < kMostRanks ? trace_events(spans, world.rank(), process, shift) : std::string());
  const std::string problem =
      comm::broadcast_bytes(world, world.rank() == 0 ? write_file(path, trace_document(events)) : "");
  SHOAL_CHECK(problem.empty(), IoError, "the trace cannot be written to '{}': {}; change --trace", path, problem);
  return step_times(spans);
}

}  // namespace shoal::fsdp
