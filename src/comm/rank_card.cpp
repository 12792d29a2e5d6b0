#include "comm/rank_card.h"

#include <cerrno>
#include <csignal>
#include <map>
#include <sstream>
#include <tuple>
#include <utility>

#include "core/check.h"

namespace shoal::comm {
namespace {

bool has_ended(std::int64_t process) { return kill(static_cast<pid_t>(process), 0) != 0 && errno == ESRCH; }

}  // namespace

std::string nccl_version_text(int code) { return fmt::format("{}.{}.{}", code / 10000, code / 100 % 100, code % 100); }

std::string to_text(const RankCard& card) {
  return fmt::format("{}\n{}\n{}\n{}\n{}\n{}\n{}\n", card.host, card.machine, card.gpu, card.uuid, card.process_space,
                     card.nccl_version, card.process);
}

RankCard parse_card(const std::string& text) {
  RankCard card;
  std::istringstream in(text);
  for (std::string* line : {&card.host, &card.machine, &card.gpu, &card.uuid, &card.process_space})
    std::getline(in, *line);
  in >> card.nccl_version >> card.process;
  SHOAL_ASSERT(in);
  return card;
}

void check_cards(std::span<const RankCard> cards) {
  std::map<std::pair<std::string, std::string>, std::size_t> owners;
  for (std::size_t r = 0; r < cards.size(); ++r) {
    auto [place, is_first] = owners.insert({{cards[r].machine, cards[r].gpu}, r});
    if (is_first && !cards[r].uuid.empty()) std::tie(place, is_first) = owners.insert({{"", cards[r].uuid}, r});
    const RankCard& other = cards[place->second];
    SHOAL_CHECK(is_first, SharedGpuError,
                "ranks {} and {} on host {} both have GPU {}{}{}: start at most one rank a GPU and let srun show each "
                "its own (srun --gpus-per-task=1, or --gpus-per-node=N without --gpu-bind), or give one "
                "CUDA_VISIBLE_DEVICES a rank",
                place->second, r, other.host == cards[r].host ? other.host : other.host + " and " + cards[r].host,
                cards[r].gpu, cards[r].uuid.empty() ? "" : ", ", cards[r].uuid);
  }
  for (std::size_t r = 1; r < cards.size(); ++r)
    SHOAL_CHECK(cards[r].nccl_version == cards[0].nccl_version, CommunicationError,
                "rank 0 on host {} runs NCCL {}, rank {} on host {} runs {}: give all nodes the same libnccl "
                "(LD_LIBRARY_PATH, modules)",
                cards[0].host, nccl_version_text(cards[0].nccl_version), r, cards[r].host,
                nccl_version_text(cards[r].nccl_version));
}

NeighbourProcesses::NeighbourProcesses(std::span<const RankCard> cards, int rank, std::chrono::milliseconds patience)
    : host_(cards[static_cast<std::size_t>(rank)].host), patience_(patience) {
  const RankCard& mine = cards[static_cast<std::size_t>(rank)];
  for (int r = 0; r < static_cast<int>(cards.size()); ++r) {
    const RankCard& card = cards[static_cast<std::size_t>(r)];
    if (r != rank && card.machine == mine.machine && card.process_space == mine.process_space &&
        !has_ended(card.process))
      neighbours_.push_back({r, card.process});
  }
}

std::optional<std::string> NeighbourProcesses::trouble() {
  for (const Neighbour& n : neighbours_) {
    if (!has_ended(n.process)) continue;
    const auto now = std::chrono::steady_clock::now();
    if (!missed_since_) missed_since_ = now;
    if (now - *missed_since_ < patience_) return std::nullopt;
    return fmt::format("rank {} (process {} on host {}) has ended before its time", n.rank, n.process, host_);
  }
  return std::nullopt;
}

}  // namespace shoal::comm
