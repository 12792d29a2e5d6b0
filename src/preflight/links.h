// MPI between nodes: how long a small message takes and how fast a large one goes, pair by pair.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "preflight/context.h"
#include "preflight/record.h"

namespace shoal::preflight {

struct Endpoint {
  int rank = 0;
  std::string host;
};

struct Link {
  int a = 0, b = 0;  // places in the list of endpoints
  bool answered = false;
  double latency_us = 0;            // half of the median round trip of 8 bytes
  double gigabytes_per_second = 0;  // of the fastest round trip of 4 MiB, 10^9 bytes
};

struct LinkTable {
  std::vector<Endpoint> endpoints;
  std::vector<Link> links;
  bool between_nodes = false;
};

using LinkRounds = std::vector<std::vector<std::pair<int, int>>>;

// Pairs of `endpoints`, in rounds in which none is in two: all pairs among up to 16, else each with its neighbours at
// distance 1 and 2 on a ring, so that the time does not grow with the job.
LinkRounds link_rounds(int endpoints);

// Collective over the job. One rank of each node takes part; on a single node its first ranks do, 8 at most. A pair
// takes less than a second, or 5 s where one of the two does not answer.
LinkTable measure_links(Context& context);

// A record an endpoint. A host fails whose best link has less than half of the bandwidth that the best links of all
// hosts have in the median, as does one of which no link answers; a slow pair of hosts that are well otherwise is a
// warning. Nothing is judged within a node.
CheckResult judge_bandwidth(const LinkTable& table);
// A host whose best latency is above four times the median is a warning.
CheckResult judge_latency(const LinkTable& table);

}  // namespace shoal::preflight
