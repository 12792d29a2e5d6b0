#include "launch/whereabouts.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "core/error.h"
#include "launch/hostlist.h"
#include "launch/number_ranges.h"

namespace shoal::launch {
namespace {

using State = Whereabouts::State;

// Ranks at one place are told together, however long they have been there.
auto key_of(const Whereabouts& w) {
  const activity::Reading& at = w.at;
  return std::tuple(w.state, at.operation, at.unit, at.unit_name, at.step, at.micro_step);
}

using Group = std::vector<Whereabouts>;

// The smallest first: one rank among many is what people look for.
std::vector<Group> groups_of(std::vector<Whereabouts> all) {
  std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.rank < b.rank; });
  std::map<decltype(key_of(all[0])), Group> by_place;
  for (Whereabouts& w : all) by_place[key_of(w)].push_back(std::move(w));
  std::vector<Group> groups;
  for (auto& [key, group] : by_place) groups.push_back(std::move(group));
  std::stable_sort(groups.begin(), groups.end(), [](const Group& a, const Group& b) {
    return std::tuple(a[0].state == State::runs, a.size(), a[0].rank) <
           std::tuple(b[0].state == State::runs, b.size(), b[0].rank);
  });
  return groups;
}

std::string hosts_text(const Group& group) {
  constexpr std::size_t kShown = 200;  // characters
  std::vector<std::string> hosts;
  for (const Whereabouts& w : group) hosts.push_back(w.host);
  std::sort(hosts.begin(), hosts.end());
  hosts.erase(std::unique(hosts.begin(), hosts.end()), hosts.end());
  if (hosts.size() == 1) return "host " + hosts[0];
  std::string text;
  try {
    text = compress_hostlist(hosts);
  } catch (const OptionError&) {  // a name that no list can hold
    text = fmt::format("{} to {}", hosts.front(), hosts.back());
  }
  return text.size() <= kShown ? "hosts " + text : fmt::format("{} hosts from {} on", hosts.size(), hosts.front());
}

std::string clause(const Group& group) {
  constexpr std::size_t kLongestRanks = 100;  // characters
  std::vector<int> ranks;
  for (const Whereabouts& w : group) ranks.push_back(w.rank);
  const bool one = group.size() == 1;
  const char* const are = one ? "is" : "are";
  std::string text =
      fmt::format("{} {} on {}", one ? "rank" : "ranks", ranges_text(ranks, kLongestRanks), hosts_text(group));
  switch (group[0].state) {
    case State::runs: return text + fmt::format(" {} in {}", are, place_text(group[0].at));
    case State::stopped:
      return text + fmt::format(" {} stopped (SIGSTOP, or a debugger) in {}", are, place_text(group[0].at));
    case State::ended: return text + fmt::format(" ended without a word in {}", place_text(group[0].at));
    case State::unheard: break;
  }
  return text + fmt::format(" {} not heard of (is the node down, or its network?)", are);
}

}  // namespace

std::string place_text(const activity::Reading& at) {
  std::string text = activity::text_of(at.operation);
  if (at.unit >= 0) text += fmt::format(" of unit {}", at.unit);
  if (!at.unit_name.empty()) text += fmt::format(" '{}'", at.unit_name);
  if (at.step > 0) text += fmt::format("{} step {}", at.unit >= 0 ? "," : " of", at.step);
  if (at.step > 0 && at.micro_step > 0) text += fmt::format(", micro-step {}", at.micro_step);
  return text;
}

std::string describe(std::vector<Whereabouts> all) {
  constexpr std::size_t kShown = 8;
  const std::vector<Group> groups = groups_of(std::move(all));
  std::string text;
  for (std::size_t i = 0; i < std::min(groups.size(), kShown); ++i) text += (i ? "; " : "") + clause(groups[i]);
  std::size_t others = 0;
  for (std::size_t i = kShown; i < groups.size(); ++i) others += groups[i].size();
  if (others > 0) text += fmt::format("; and {} ranks at {} other places", others, groups.size() - kShown);
  return text;
}

const Whereabouts* suspect(const std::vector<Whereabouts>& all) {
  const std::vector<Group> groups = groups_of(all);
  if (groups.empty()) return nullptr;
  const bool stands_out =
      groups[0][0].state != State::runs ||
      (groups.size() > 1 && (groups[1][0].state != State::runs || groups[0].size() < groups[1].size()));
  if (!stands_out) return nullptr;
  const int rank = groups[0][0].rank;
  return &*std::find_if(all.begin(), all.end(), [&](const Whereabouts& w) { return w.rank == rank; });
}

}  // namespace shoal::launch
