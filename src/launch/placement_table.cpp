#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "core/error.h"
#include "launch/hostlist.h"
#include "launch/number_ranges.h"
#include "launch/rank_place.h"

namespace shoal::launch {
namespace {

constexpr std::size_t kLongestRanks = 24, kLongestHosts = 32, kLongestCpus = 32;

using Node = std::vector<const RankPlace*>;  // its ranks by their local numbers

std::vector<Node> nodes_of(std::span<const RankPlace> places) {
  std::map<int, Node> nodes;
  for (const RankPlace& place : places) nodes[place.node].push_back(&place);
  std::vector<Node> in_order;
  for (auto& [number, node] : nodes) {
    std::ranges::sort(node, {}, &RankPlace::local_rank);
    in_order.push_back(std::move(node));
  }
  return in_order;
}

std::string gpu_text(const RankPlace& place) {
  if (place.gpu < 0) return "-";
  const GpuPlace& gpu = place.visible[static_cast<std::size_t>(place.gpu)];
  return fmt::format("{} {}", place.gpu, gpu.pci);
}

std::string numa_text(const RankPlace& place) {
  const std::string own = ranges_text(place.cpus.numa);
  if (place.gpu < 0) return own;
  const std::string of_gpu = ranges_text(place.visible[static_cast<std::size_t>(place.gpu)].numa);
  return of_gpu == own || of_gpu.empty() ? own : fmt::format("{} (GPU {})", own, of_gpu);
}

std::string cpus_text(const RankPlace& place) {
  return place.cpus.cpus.size() == static_cast<std::size_t>(place.cpus.machine_cpus) && place.cpus.machine_cpus > 1
             ? fmt::format("all {}", place.cpus.machine_cpus)
             : ranges_text(place.cpus.cpus, kLongestCpus);
}

// What two ranks must have alike to share a row.
std::string layout_of(const RankPlace& place) {
  return gpu_text(place) + "|" + numa_text(place) + "|" + ranges_text(place.cpus.cpus, static_cast<std::size_t>(-1));
}

std::string layout_of(const Node& node) {
  std::string text;
  for (const RankPlace* place : node) text += layout_of(*place) + "\n";
  return text;
}

// A computer without a name is called "(none)", which no host list can hold.
std::string short_form(const std::vector<std::string>& hosts) {
  try {
    return compress_hostlist(hosts);
  } catch (const OptionError&) {
    return fmt::format("{}", fmt::join(hosts, ","));
  }
}

std::string hosts_text(const std::vector<Node>& nodes) {
  std::vector<std::string> hosts;
  for (const Node& node : nodes)
    if (hosts.empty() || hosts.back() != node.front()->host) hosts.push_back(node.front()->host);
  std::string text = short_form(hosts);
  if (text.size() > kLongestHosts) text = text.substr(0, kLongestHosts) + "...";
  return nodes.size() == 1 ? text : fmt::format("{} ({} nodes)", text, nodes.size());
}

struct Row {
  std::string ranks, hosts, local, gpu, numa, cpus;
};

// Nodes of one layout. Ranks of a node that follow each other and are alike share a row.
void add_rows(const std::vector<Node>& nodes, std::vector<Row>& rows) {
  const Node& first = nodes.front();
  for (std::size_t begin = 0; begin < first.size();) {
    std::size_t end = begin + 1;
    while (end < first.size() && layout_of(*first[end]) == layout_of(*first[begin])) ++end;
    std::vector<int> ranks, local;
    for (std::size_t i = begin; i < end; ++i) local.push_back(first[i]->local_rank);
    for (const Node& node : nodes)
      for (std::size_t i = begin; i < end; ++i) ranks.push_back(node[i]->rank);
    std::ranges::sort(ranks);
    rows.push_back({ranges_text(ranks, kLongestRanks), hosts_text(nodes), ranges_text(local), gpu_text(*first[begin]),
                    numa_text(*first[begin]), cpus_text(*first[begin])});
    begin = end;
  }
}

std::vector<Row> rows_of(const std::vector<Node>& nodes) {
  std::vector<std::pair<std::string, std::vector<Node>>> layouts;  // in the order of their first nodes
  std::map<std::string, std::size_t> index;
  for (const Node& node : nodes) {
    const auto [place, is_new] = index.try_emplace(layout_of(node), layouts.size());
    if (is_new) layouts.emplace_back(place->first, std::vector<Node>());
    layouts[place->second].second.push_back(node);
  }
  std::vector<Row> rows;
  for (const auto& [layout, alike] : layouts) add_rows(alike, rows);
  return rows;
}

}  // namespace

std::vector<std::string> placement_table(std::span<const RankPlace> places, std::size_t most_rows) {
  const std::vector<Node> nodes = nodes_of(places);
  std::vector<Row> rows = rows_of(nodes);
  const std::size_t left_out = rows.size() - std::min(rows.size(), most_rows);
  rows.resize(rows.size() - left_out);
  rows.insert(rows.begin(), {"ranks", "hosts", "local", "GPU", "NUMA", "CPUs"});
  const auto width = [&](std::string Row::*column) {
    return std::ranges::max(rows, {}, [&](const Row& row) { return (row.*column).size(); }).*column;
  };
  std::vector<std::string> lines{fmt::format("placement: {} rank{} on {} node{}", places.size(),
                                             places.size() == 1 ? "" : "s", nodes.size(),
                                             nodes.size() == 1 ? "" : "s")};
  for (const Row& row : rows)
    lines.push_back(fmt::format("  {:<{}}  {:<{}}  {:<{}}  {:<{}}  {:<{}}  {}", row.ranks, width(&Row::ranks).size(),
                                row.hosts, width(&Row::hosts).size(), row.local, width(&Row::local).size(), row.gpu,
                                width(&Row::gpu).size(), row.numa, width(&Row::numa).size(), row.cpus));
  if (left_out > 0) lines.push_back(fmt::format("  and {} rows more", left_out));
  return lines;
}

}  // namespace shoal::launch
