// Where the ranks of a job are. Each rank describes itself; comm/exchange_places.h brings the descriptions together.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "launch/machine.h"

namespace shoal::launch {

struct GpuPlace {
  std::string pci;        // "0000:1b:00.0"
  std::string uuid;       // "GPU-8f3e…"; empty where the driver does not tell
  std::vector<int> numa;  // the nodes of memory next to it; empty where hwloc does not know
};

struct RankPlace {
  int rank = 0;                        // in the job
  int node = 0;                        // of those nodes that the job has, in the order of their first ranks
  int local_rank = 0, local_size = 1;  // among the ranks that share this node's memory
  std::string host;
  CpuPlace cpus;
  int cpus_per_task = 0;  // that Slurm was asked for; 0: not known
  std::string cpu_bind;   // SLURM_CPU_BIND; empty where it is not set
  int gpus_of_slurm = 0;  // that Slurm gave to the step on this node, where GPUs are wanted; 0: none, or not known
  std::vector<GpuPlace> visible;  // the GPUs that this rank could use, by the numbers that CUDA gives them
  int gpu = -1;                   // the chosen one among them; -1: none
};

std::string to_text(const RankPlace& place);          // JSON in one line
RankPlace parse_rank_place(const std::string& text);  // InternalError for what to_text() did not write

// {"job": "41", "ranks": [{"rank": 0, "host": "n1", "node": 0, "local_rank": 0, "gpu": null or {"device": 0, "pci": …,
// "uuid": …, "numa": "0"}, "numa": "0", "cpus": "0-15", …}]}, for the run directory. `job` may be empty.
std::string placement_json(std::span<const RankPlace> places, const std::string& job);

// The same for people, a line a row: equal ranks of a node and nodes of equal layout share one, and beyond `most_rows`
// rows the rest is counted.
std::vector<std::string> placement_table(std::span<const RankPlace> places, std::size_t most_rows = 24);

// What works but is hardly meant, each in a line that names ranks, hosts and the flag of srun to change: fewer CPUs
// than Slurm was asked for, ranks that share too few, CPUs far from the GPU, GPUs of Slurm's that no rank sees.
std::vector<std::string> placement_warnings(std::span<const RankPlace> places);

}  // namespace shoal::launch
