#include "launch/machine.h"

#include <hwloc.h>

#include "core/check.h"

namespace shoal::launch {
namespace {

struct Bitmap {
  hwloc_bitmap_t bits = hwloc_bitmap_alloc();
  Bitmap() { SHOAL_ASSERT(bits != nullptr); }
  ~Bitmap() { hwloc_bitmap_free(bits); }
  Bitmap(const Bitmap&) = delete;
  Bitmap& operator=(const Bitmap&) = delete;
};

// Infinite sets do not occur: what is asked for is part of the machine.
std::vector<int> numbers_of(hwloc_const_bitmap_t bits) {
  std::vector<int> numbers;
  for (int i = hwloc_bitmap_first(bits); i != -1; i = hwloc_bitmap_next(bits, i)) numbers.push_back(i);
  return numbers;
}

CpuPlace place_of(hwloc_topology_t topology, hwloc_bitmap_t cpus) {
  hwloc_bitmap_and(cpus, cpus, hwloc_topology_get_complete_cpuset(topology));
  Bitmap nodes;
  hwloc_cpuset_to_nodeset(topology, cpus, nodes.bits);
  CpuPlace place{.cpus = numbers_of(cpus), .numa = numbers_of(nodes.bits)};
  place.machine_cpus = hwloc_bitmap_weight(hwloc_topology_get_topology_cpuset(topology));
  for (int i = 0; i < hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_CORE); ++i) {
    const hwloc_obj_t core = hwloc_get_obj_by_type(topology, HWLOC_OBJ_CORE, static_cast<unsigned>(i));
    place.cores += hwloc_bitmap_intersects(core->cpuset, cpus);
  }
  return place;
}

}  // namespace

struct Machine::Topology {
  hwloc_topology_t handle = nullptr;

  Topology() {
    SHOAL_CHECK(hwloc_topology_init(&handle) == 0, InternalError, "hwloc_topology_init failed");
    // CPUs of other jobs count as CPUs of the computer. What the kernel tells is enough: "x86" would run on each CPU in
    // turn, which takes long where others compute, and the libraries of GPUs would take memory there.
    hwloc_topology_set_flags(handle, HWLOC_TOPOLOGY_FLAG_INCLUDE_DISALLOWED);
    hwloc_topology_set_io_types_filter(handle, HWLOC_TYPE_FILTER_KEEP_IMPORTANT);
    for (const char* component : {"x86", "cuda", "nvml", "opencl", "gl", "rsmi", "levelzero"})
      hwloc_topology_set_components(handle, HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST, component);
    if (hwloc_topology_load(handle) == 0) return;
    hwloc_topology_destroy(handle);
    throw InternalError("hwloc cannot read the topology of this computer");
  }
  ~Topology() { hwloc_topology_destroy(handle); }
  Topology(const Topology&) = delete;
  Topology& operator=(const Topology&) = delete;
};

Machine::Machine() : topology_(std::make_unique<Topology>()) {}
Machine::~Machine() = default;

CpuPlace Machine::here() const {
  Bitmap cpus;
  SHOAL_CHECK(hwloc_get_cpubind(topology_->handle, cpus.bits, HWLOC_CPUBIND_THREAD) == 0, InternalError,
              "hwloc cannot tell on which CPUs this process may run");
  return place_of(topology_->handle, cpus.bits);
}

CpuPlace Machine::of(const std::vector<int>& cpus) const {
  Bitmap set;
  for (const int cpu : cpus) hwloc_bitmap_set(set.bits, static_cast<unsigned>(cpu));
  return place_of(topology_->handle, set.bits);
}

std::vector<int> Machine::numa_of_pci(const std::string& address) const {
  const hwloc_obj_t device = hwloc_get_pcidev_by_busidstring(topology_->handle, address.c_str());
  if (device == nullptr) return {};
  const hwloc_obj_t parent = hwloc_get_non_io_ancestor_obj(topology_->handle, device);
  return parent == nullptr ? std::vector<int>() : numbers_of(parent->nodeset);
}

}  // namespace shoal::launch
