#include "train/thread_share.h"

#include <sched.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <thread>

#include "core/check.h"

namespace shoal::train {
namespace {

CpuSet allowed_cpus() {
  cpu_set_t mask;
  CPU_ZERO(&mask);
  CpuSet cpus;
  if (sched_getaffinity(0, sizeof mask, &mask) == 0) {
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
      if (CPU_ISSET(cpu, &mask)) cpus.push_back(cpu);
  }
  // More cores than the mask can hold: take them all.
  if (cpus.empty())
    for (int cpu = 0; cpu < static_cast<int>(std::max(1u, std::thread::hardware_concurrency())); ++cpu)
      cpus.push_back(cpu);
  return cpus;
}

// "host 0 1 2 …"
std::string describe(const std::string& host, const CpuSet& cpus) {
  std::string text = host;
  for (const int cpu : cpus) text += fmt::format(" {}", cpu);
  return text;
}

CpuSet parse(std::string_view numbers) {
  CpuSet cpus;
  const char* at = numbers.data();
  const char* const end = at + numbers.size();
  while (at < end) {
    int cpu = 0;
    at = std::from_chars(at + 1, end, cpu).ptr;
    cpus.push_back(cpu);
  }
  return cpus;
}

}  // namespace

int fair_threads(const std::vector<CpuSet>& node, const CpuSet& mine) {
  double share = 0;
  for (const int cpu : mine) {
    const auto users = std::count_if(
        node.begin(), node.end(), [&](const CpuSet& set) { return std::binary_search(set.begin(), set.end(), cpu); });
    share += 1.0 / static_cast<double>(std::max<std::ptrdiff_t>(users, 1));
  }
  return std::max(1, static_cast<int>(std::floor(share + 1e-9)));
}

int fair_threads(comm::ProcessGroup& world, const std::string& host) {
  const CpuSet mine = allowed_cpus();
  std::vector<CpuSet> node;
  for (const std::string& text : comm::all_gather_bytes(world, describe(host, mine)))
    if (text.starts_with(host + " ")) node.push_back(parse(std::string_view(text).substr(host.size())));
  return fair_threads(node, mine);
}

}  // namespace shoal::train
