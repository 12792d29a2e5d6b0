#include "fsdp/mesh_check.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <vector>

#include "core/check.h"
#include "core/host_name.h"

namespace shoal::fsdp {
namespace {

using Ranks = std::vector<int>;

// `count` ranks from `first` on, `stride` apart.
Ranks ranks_from(int first, int count, int stride) {
  Ranks ranks;
  for (int i = 0; i < count; ++i) ranks.push_back(first + i * stride);
  return ranks;
}

// Who is in `group`, in its order, as its collectives see it.
Ranks members_of(comm::ProcessGroup& group, int world_rank, c10::Device device) {
  const auto options = at::TensorOptions(device).dtype(at::kLong);
  const at::Tensor mine = at::full({1}, world_rank, options), all = at::zeros({group.size()}, options);
  group.all_gather(mine.data_ptr(), all.data_ptr(), 1, DType::int64)->wait();
  const at::Tensor on_host = all.cpu();
  const auto* ranks = on_host.const_data_ptr<std::int64_t>();
  return Ranks(ranks, ranks + group.size());
}

std::string problem_of(const char* name, const Ranks& expected, const Ranks& found) {
  if (found == expected) return "";
  return fmt::format("the {} group has the ranks {} where the mesh has {}", name, fmt::join(found, ","),
                     fmt::join(expected, ","));
}

// "0-3", or "0,4,8".
std::string text_of(const Ranks& ranks) {
  const bool consecutive = ranks.back() - ranks.front() == static_cast<int>(ranks.size()) - 1;
  if (ranks.size() > 2 && consecutive) return fmt::format("{}-{}", ranks.front(), ranks.back());
  constexpr std::size_t kMost = 8;
  if (ranks.size() <= kMost) return fmt::format("{}", fmt::join(ranks, ","));
  return fmt::format("{},{},…,{}", ranks[0], ranks[1], ranks.back());
}

std::string hosts_of(const Ranks& ranks, const std::vector<std::string>& host_of_rank) {
  std::vector<std::string> hosts;
  for (const int rank : ranks) {
    const std::string& host = host_of_rank[static_cast<std::size_t>(rank)];
    if (std::find(hosts.begin(), hosts.end(), host) == hosts.end()) hosts.push_back(host);
  }
  constexpr std::size_t kMost = 4;
  if (hosts.size() <= kMost) return fmt::format("{}", fmt::join(hosts, ","));
  return fmt::format("{} … {} ({} hosts)", hosts.front(), hosts.back(), hosts.size());
}

std::string text_of(const std::vector<Ranks>& groups, const std::vector<std::string>& host_of_rank) {
  constexpr std::size_t kMost = 4;
  std::vector<std::string> texts;
  for (std::size_t i = 0; i < std::min(kMost, groups.size()); ++i)
    texts.push_back(fmt::format("{} on {}", text_of(groups[i]), hosts_of(groups[i], host_of_rank)));
  if (groups.size() > kMost) texts.push_back(fmt::format("and {} more", groups.size() - kMost));
  return fmt::format("{}", fmt::join(texts, "; "));
}

}  // namespace

void check_mesh(comm::DeviceMesh& mesh, c10::Device device) {
  comm::ProcessGroup& world = mesh.world();
  const int rank = world.rank(), shards = mesh.shard_size(), replicas = mesh.replicate_size();
  const Ranks row = ranks_from(rank / shards * shards, shards, 1);
  const Ranks column = ranks_from(rank % shards, replicas, shards);
  std::string problem = problem_of("shard", row, members_of(mesh.shard(), rank, device));
  if (problem.empty()) problem = problem_of("reduce", row, members_of(mesh.reduce(), rank, device));
  if (problem.empty()) problem = problem_of("replicate", column, members_of(mesh.replicate(), rank, device));
  if (problem.empty() && mesh.regather() != nullptr) {
    const int size = mesh.regather_size();
    problem =
        problem_of("regather", ranks_from(rank / size * size, size, 1), members_of(*mesh.regather(), rank, device));
  }
  if (problem.empty() && shards * replicas != world.size())
    problem = fmt::format("{} replicas of {} shards are not {} ranks", replicas, shards, world.size());
  const auto problems = comm::all_gather_bytes(world, problem);
  const auto bad = std::find_if(problems.begin(), problems.end(), [](const std::string& p) { return !p.empty(); });
  SHOAL_CHECK(bad == problems.end(), CommunicationError,
              "on rank {} {}; please report this with --strategy and "
              "--shard-size",
              bad - problems.begin(), *bad);
}

std::string topology(comm::DeviceMesh& mesh) {
  const auto hosts = comm::all_gather_bytes(mesh.world(), host_name());
  const int shards = mesh.shard_size(), replicas = mesh.replicate_size();
  std::vector<Ranks> rows, columns;
  for (int i = 0; i < replicas; ++i) rows.push_back(ranks_from(i * shards, shards, 1));
  for (int i = 0; i < shards; ++i) columns.push_back(ranks_from(i, replicas, shards));
  std::string text = fmt::format("{} x {} ranks (replicate x shard)", replicas, shards);
  if (shards > 1) text += "; shard groups " + text_of(rows, hosts);
  if (replicas > 1) text += "; replicate groups " + text_of(columns, hosts);
  return text;
}

}  // namespace shoal::fsdp
