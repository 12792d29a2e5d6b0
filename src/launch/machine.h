// The logical CPUs, the nodes of memory (NUMA) and the PCI devices of this computer, by hwloc.
#pragma once

#include <memory>
#include <string>
#include <vector>

namespace shoal::launch {

// Where a thread may run. Numbers are those of the system, in rising order.
struct CpuPlace {
  std::vector<int> cpus;  // logical CPUs
  std::vector<int> numa;  // nodes of memory that are next to them
  int cores = 0;          // physical cores that they belong to
  int machine_cpus = 0;   // that the whole computer has, whoever may use them
};

class Machine {
 public:
  Machine();  // some tens of ms; InternalError where hwloc cannot read this system
  ~Machine();
  Machine(const Machine&) = delete;
  Machine& operator=(const Machine&) = delete;

  // Of the calling thread: the mask that the launcher gave to the process, where no library has changed it since.
  CpuPlace here() const;
  CpuPlace of(const std::vector<int>& cpus) const;

  // The nodes of memory next to the device with the PCI address "0000:1b:00.0"; none where hwloc does not know it.
  std::vector<int> numa_of_pci(const std::string& address) const;

 private:
  struct Topology;
  std::unique_ptr<Topology> topology_;
};

}  // namespace shoal::launch
