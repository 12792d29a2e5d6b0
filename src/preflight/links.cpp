#include "preflight/links.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <sstream>

#include "preflight/peer_messages.h"

namespace shoal::preflight {
namespace {

using std::chrono::milliseconds;

constexpr int kFewEndpoints = 16;
constexpr std::size_t kSmall = 8, kLarge = std::size_t{4} << 20;
constexpr double kLatencySeconds = 0.1, kBandwidthSeconds = 0.4;
constexpr int kLatencyTrips = 200, kBandwidthTrips = 10;
constexpr milliseconds kPatience{5000};  // for one message

// Round trips of `bytes` between two ranks until the time or their number is spent; the one who starts tells the other
// in the first byte whether there is another. The times of the trips on the rank that starts; false: gave up.
bool round_trips(PeerMessages& messages, int peer, int tag, bool starts, std::size_t bytes, double seconds, int most,
                 std::vector<double>& times) {
  const Timer all;
  for (int i = 0;; ++i) {
    const Timer trip;
    if (starts) {
      messages.data()[0] = std::byte{i + 1 < most && all.seconds() < seconds};
      const bool more = messages.data()[0] != std::byte{0};
      if (!messages.send(peer, tag, bytes, kPatience) || !messages.receive(peer, tag, bytes, kPatience)) return false;
      times.push_back(trip.seconds());
      if (!more) return true;
    } else {
      if (!messages.receive(peer, tag, bytes, kPatience)) return false;
      const bool more = messages.data()[0] != std::byte{0};
      if (!messages.send(peer, tag, bytes, kPatience)) return false;
      if (!more) return true;
    }
  }
}

// The first trips connect and warm up: their share in the median is small, and the fastest is taken of the large ones.
void measure_pair(PeerMessages& messages, const LinkTable& table, int round, bool starts, Link& link) {
  const int peer = table.endpoints[static_cast<std::size_t>(starts ? link.b : link.a)].rank;
  std::vector<double> small, large;
  if (!round_trips(messages, peer, 2 * round, starts, kSmall, kLatencySeconds, kLatencyTrips, small)) return;
  if (!round_trips(messages, peer, 2 * round + 1, starts, kLarge, kBandwidthSeconds, kBandwidthTrips, large)) return;
  link.answered = true;
  if (!starts) return;
  link.latency_us = median_of(small) / 2 * 1e6;
  link.gigabytes_per_second = 2e-9 * static_cast<double>(kLarge) / *std::min_element(large.begin(), large.end());
}

std::vector<Endpoint> choose_endpoints(const Context& context) {
  constexpr int kMostOfANode = 8;
  std::vector<Endpoint> endpoints;
  if (context.first_ranks().size() > 1) {
    for (const int rank : context.first_ranks()) endpoints.push_back({rank, context.host_of(rank)});
  } else {
    for (int rank = 0; rank < std::min(context.size(), kMostOfANode); ++rank)
      endpoints.push_back({rank, context.host_of(rank)});
  }
  return endpoints;
}

std::string to_text(const Link& link) {
  return fmt::format("{} {} {} {} {}\n", link.a, link.b, link.answered ? 1 : 0, link.latency_us,
                     link.gigabytes_per_second);
}

void parse_links(const std::string& text, std::vector<Link>& links) {
  std::istringstream in(text);
  for (Link link; in >> link.a >> link.b >> link.answered >> link.latency_us >> link.gigabytes_per_second;)
    links.push_back(link);
}

}  // namespace

LinkRounds link_rounds(int endpoints) {
  LinkRounds rounds;
  std::vector<std::vector<bool>> busy;  // of each round
  // Into the first round in which both are free: for 2^k endpoints that makes 2^k - 1 rounds of all pairs.
  const auto add = [&](int a, int b) {
    std::size_t round = 0;
    const auto x = static_cast<std::size_t>(a), y = static_cast<std::size_t>(b);
    while (round < rounds.size() && (busy[round][x] || busy[round][y])) ++round;
    if (round == rounds.size()) {
      rounds.emplace_back();
      busy.emplace_back(static_cast<std::size_t>(endpoints), false);
    }
    rounds[round].emplace_back(a, b);
    busy[round][x] = busy[round][y] = true;
  };
  if (endpoints <= kFewEndpoints) {
    for (int a = 0; a < endpoints; ++a)
      for (int b = a + 1; b < endpoints; ++b) add(a, b);
  } else {
    for (const int distance : {1, 2})
      for (int a = 0; a < endpoints; ++a) add(a, (a + distance) % endpoints);
  }
  return rounds;
}

LinkTable measure_links(Context& context) {
  context.begin("the messages between nodes");
  LinkTable table{.endpoints = choose_endpoints(context), .between_nodes = context.first_ranks().size() > 1};
  PeerMessages messages(MPI_COMM_WORLD, kLarge);
  const LinkRounds rounds = link_rounds(static_cast<int>(table.endpoints.size()));
  std::string mine;
  for (std::size_t round = 0; round < rounds.size(); ++round) {
    for (const auto& [a, b] : rounds[round]) {
      Link link{.a = a, .b = b};
      const bool starts = table.endpoints[static_cast<std::size_t>(a)].rank == context.rank();
      const bool answers = table.endpoints[static_cast<std::size_t>(b)].rank == context.rank();
      if (!starts && !answers) continue;
      measure_pair(messages, table, static_cast<int>(round), starts, link);
      if (starts) mine += to_text(link);
    }
  }
  for (const std::string& text : context.exchange("the messages between nodes", mine)) parse_links(text, table.links);
  return table;
}

}  // namespace shoal::preflight
