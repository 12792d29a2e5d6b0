#include "launch/gpu_choice.h"

#include <algorithm>
#include <map>
#include <set>

#include "core/check.h"
#include "launch/number_ranges.h"

namespace shoal::launch {
namespace {

using Node = std::vector<RankPlace*>;

bool is_near(const GpuPlace& gpu, const CpuPlace& cpus) {
  return std::ranges::any_of(gpu.numa,
                             [&](int number) { return std::ranges::find(cpus.numa, number) != cpus.numa.end(); });
}

bool sees_the_same(const RankPlace& a, const RankPlace& b) {
  return std::ranges::equal(a.visible, b.visible, {}, &GpuPlace::pci, &GpuPlace::pci);
}

// Ranks and GPUs as a matching that grows by augmenting paths (Kuhn): a rank takes a free GPU, or one whose owner finds
// another. Ranks that have a GPU keep one.
class Matching {
 public:
  explicit Matching(const Node& node) : node_(node) {}

  bool place(std::size_t rank, bool near_only) {
    std::set<std::string> tried;
    return find(rank, near_only, tried);
  }

 private:
  bool find(std::size_t rank, bool near_only, std::set<std::string>& tried) {
    const RankPlace& place = *node_[rank];
    const auto may_take = [&](std::size_t i) { return !near_only || is_near(place.visible[i], place.cpus); };
    for (std::size_t i = 0; i < place.visible.size(); ++i)
      if (may_take(i) && !owners_.contains(place.visible[i].pci)) return take(rank, i);
    for (std::size_t i = 0; i < place.visible.size(); ++i) {
      const std::string& pci = place.visible[i].pci;
      if (may_take(i) && tried.insert(pci).second && find(owners_.at(pci), near_only, tried)) return take(rank, i);
    }
    return false;
  }

  bool take(std::size_t rank, std::size_t gpu) {
    node_[rank]->gpu = static_cast<int>(gpu);
    owners_[node_[rank]->visible[gpu].pci] = rank;
    return true;
  }

  const Node& node_;
  std::map<std::string, std::size_t> owners_;  // by PCI address
};

[[noreturn]] void throw_too_few(const Node& node) {
  std::set<std::string> gpus;
  std::vector<int> ranks;
  for (const RankPlace* place : node) {
    ranks.push_back(place->rank);
    for (const GpuPlace& gpu : place->visible) gpus.insert(gpu.pci);
  }
  throw DeviceError(
      "ranks {} on host {} are {}, but see {} GPUs: start as many ranks as there are GPUs (srun --ntasks-per-node={} "
      "--gpus-per-node={}, mpirun -n), let srun show each its own (--gpus-per-task=1), or use --device cpu",
      ranges_text(ranks), node.front()->host, ranks.size(), gpus.size(), gpus.size(), gpus.size());
}

void choose_on_node(const Node& node) {
  if (std::ranges::all_of(node, [](const RankPlace* place) { return place->visible.size() == 1; })) {
    for (RankPlace* place : node) place->gpu = 0;
    return;
  }
  const bool all_alike = std::ranges::all_of(node, [&](const RankPlace* p) { return sees_the_same(*p, *node[0]); });
  if (all_alike && node[0]->visible.size() == node.size()) {
    for (std::size_t i = 0; i < node.size(); ++i) node[i]->gpu = static_cast<int>(i);
    return;
  }
  Matching matching(node);
  std::vector<std::size_t> left;
  for (std::size_t i = 0; i < node.size(); ++i)
    if (!matching.place(i, /*near_only=*/true)) left.push_back(i);
  for (const std::size_t i : left)
    if (!matching.place(i, /*near_only=*/false)) throw_too_few(node);
}

}  // namespace

void choose_gpus(std::span<RankPlace> places) {
  std::map<int, Node> nodes;
  for (RankPlace& place : places) {
    place.gpu = -1;
    if (!place.visible.empty()) nodes[place.node].push_back(&place);
  }
  for (auto& [number, node] : nodes) {
    std::ranges::sort(node, {}, &RankPlace::local_rank);
    choose_on_node(node);
  }
}

}  // namespace shoal::launch
